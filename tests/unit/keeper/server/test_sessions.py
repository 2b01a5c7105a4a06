"""How long a session lives, by the leader's clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.keeper import wire
from ottla.keeper.messages import Revalidate
from ottla.keeper.server.sessions import SessionTracker
from tests.unit.keeper.monitored_ensemble import Ensemble, Person

SHORT_MS, LONG_MS = 2000, 8000
WAYS = [("standalone", "standalone"), ("leader", "leader"), ("follower", "leader"), ("leader", "observer")]
"""The mode of the server where the session begins, and of the one where its client comes back."""


def ensemble_of(folder: Path, mode: str) -> Ensemble:
    return Ensemble(folder) if mode == "standalone" else Ensemble(folder, 3, 1)


def reattached(folder: Path, way: tuple[str, str], before_ms: int, after_ms: int) -> tuple[Ensemble, int]:
    """A session of one timeout, taken up again with another and then left alone."""
    ensemble = ensemble_of(folder, way[0])
    person = Person(ensemble, ensemble.of_mode(way[0]), timeout_ms=before_ms)
    back = Person(ensemble, ensemble.of_mode(way[1]), timeout_ms=after_ms, back=person.client)
    assert back.client.timeout_ms == after_ms
    back.frontend.disconnected(back.client)
    return ensemble, back.client.session_id


def lives(ensemble: Ensemble, session_id: int) -> bool:
    return all(session_id in server.member.frontend.tree.sessions for server in ensemble.servers.values())


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_comes_back_has_the_longer_timeout_it_was_told(tmp_path: Path, way: tuple[str, str]) -> None:
    ensemble, session_id = reattached(tmp_path, way, SHORT_MS, LONG_MS)
    ensemble.run((LONG_MS - 500) / 1000)
    assert lives(ensemble, session_id)


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_comes_back_has_the_shorter_timeout_it_was_told(tmp_path: Path, way: tuple[str, str]) -> None:
    ensemble, session_id = reattached(tmp_path, way, LONG_MS, SHORT_MS)
    ensemble.run((SHORT_MS + 1500) / 1000)
    assert not lives(ensemble, session_id)


def test_what_is_heard_later_counts_with_the_new_timeout() -> None:
    tracker = SessionTracker({7: SHORT_MS}, 500, 0)
    assert tracker.reattach(7, 1, LONG_MS)
    tracker.at(1000)
    assert tracker.touch(7)
    assert tracker.expired(1000 + LONG_MS - 1) == []
    assert tracker.expired(1000 + LONG_MS) == [7]


def test_a_session_that_is_being_closed_cannot_be_taken_up() -> None:
    tracker = SessionTracker({7: SHORT_MS}, 500, 0)
    tracker.closing(7)
    assert not tracker.reattach(7, 1, LONG_MS)
    assert not tracker.reattach(8, 1, LONG_MS)


def test_followers_tell_the_leader_the_timeout() -> None:
    asked = Revalidate(1 << 56, 3, LONG_MS)
    assert wire.decode(wire.encode(asked)[4:]) == asked
