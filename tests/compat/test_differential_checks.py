"""The comparison notices what it is there for: each small lie of one side is a divergence."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest

from tests.compat import rawclient as raw
from tests.compat.differential import Comparison, DivergenceError, Observed, Side
from tests.compat.rawclient import Owner, Time, Value, Zxid
from tests.compat.steps import Request, Send, Step

NOW = int(time.time() * 1000)
STEP: Step = Send(0, (Request(raw.CREATE2, ()),))


def side(name: str, sessions: list[int]) -> Side:
    ensemble = SimpleNamespace(client_ports=[], quorum_ports=[], election_ports=[])
    return cast("Side", SimpleNamespace(name=name, sessions=sessions, ensemble=ensemble))


def comparison() -> Comparison:
    return Comparison(side("left", [71, 72]), side("right", [81, 82]))


def stat(base: int, **changed: Value) -> Value:
    fields: dict[str, Value] = {
        "czxid": Zxid(base + 1),
        "mzxid": Zxid(base + 2),
        "ctime": Time(NOW + base, base + 1),
        "mtime": Time(NOW + base + 5, base + 2),
        "version": 3,
        "ephemeralOwner": Owner(71 if base == 0 else 81),
    }
    return tuple((fields | changed).items())


def reply(base: int, *, err: int = 0, path: str = "/a", **changed: Value) -> Observed:
    fields = (("reply", "CREATE2"), ("xid", 1), ("zxid", Zxid(base + 9)), ("err", err), ("path", path))
    return {0: [(*fields, ("stat", stat(base, **changed)))]}


def event(zxid: int, path: str, kind: int = 1) -> tuple[tuple[str, Value], ...]:
    return (("event", -1), ("zxid", Zxid(zxid)), ("err", 0), ("type", kind), ("state", 3), ("path", path))


def test_the_same_story_with_other_numbers_is_alike() -> None:
    comparison().check(STEP, reply(0), reply(1000))


LIES: dict[str, Observed] = {
    "another error": reply(1000, err=-110),
    "another path": reply(1000, path="/b"),
    "another version": reply(1000, version=4),
    "another session's": reply(1000, ephemeralOwner=Owner(82)),
    "nobody's": reply(1000, ephemeralOwner=Owner(0)),
    "changed before it was made": reply(1000, mzxid=Zxid(1000), mtime=Time(NOW, 1000)),
    "changed after now": reply(1000, mzxid=Zxid(1010), mtime=Time(NOW, 1010)),
    "no zxid": reply(1000, czxid=Zxid(0), ctime=Time(0, 0)),
    "a time of long ago": reply(1000, ctime=Time(NOW - 86_400_000, 1001)),
    "no time": reply(1000, ctime=Time(0, 1001)),
    "silence": {0: []},
    "an event beside": {**reply(1000), 1: [event(1009, "/a")]},
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_noticed(name: str) -> None:
    with pytest.raises(DivergenceError):
        comparison().check(STEP, reply(0), LIES[name])


def test_a_zxid_that_is_another_one_later_is_noticed() -> None:
    checked = comparison()
    checked.check(STEP, reply(0), reply(1000))
    later = reply(1000, czxid=Zxid(1000), ctime=Time(NOW + 1000, 1000))
    with pytest.raises(DivergenceError):
        checked.check(STEP, reply(0), later)


def test_two_times_for_one_transaction_are_noticed() -> None:
    checked = comparison()
    checked.check(STEP, reply(0), reply(1000))
    later = reply(1000, ctime=Time(NOW + 1001, 1001))
    with pytest.raises(DivergenceError):
        checked.check(STEP, reply(0), later)


def test_events_in_another_order_are_noticed() -> None:
    left: Observed = {0: [event(5, "/a"), event(5, "/b")]}
    right: Observed = {0: [event(5, "/b"), event(5, "/a")]}
    with pytest.raises(DivergenceError):
        comparison().check(STEP, left, right)


def test_the_events_of_a_closed_session_may_come_in_any_order() -> None:
    close: Step = Send(0, (Request(raw.CLOSE_SESSION, ()),))
    left: Observed = {0: [event(5, "/a", 2), event(5, "/b", 2)]}
    right: Observed = {0: [event(5, "/b", 2), event(5, "/a", 2)]}
    comparison().check(close, left, right)


def test_an_event_before_or_after_its_reply_is_not_the_same() -> None:
    [answer] = reply(0)[0]
    left: Observed = {0: [event(9, "/a"), answer]}
    [other] = reply(1000)[0]
    right: Observed = {0: [other, event(1009, "/a")]}
    with pytest.raises(DivergenceError):
        comparison().check(STEP, left, right)
