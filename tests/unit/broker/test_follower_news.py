"""What a follower's next fetch has to look at, and for how long its session keeps partitions in view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.fetchsessions import FetchSession, FetchSessions, Key, News
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.unit.replica.pairs import TOPIC_ID, Broker

KEY: Key = ("", TOPIC_ID, 0)
NOW_MS = 1_000


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path, 1)
    broker.order(1, 0, (1, 2), (1, 2))
    yield broker
    broker.close()


def request(*, session_id: int = 0, session_epoch: int) -> FetchRequest:
    topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0)])]
    return FetchRequest(topics=topics, session_id=session_id, session_epoch=session_epoch)


def begin(sessions: FetchSessions, asked: FetchRequest) -> FetchSession:
    session = sessions.begin(asked, NOW_MS, by_id=True)
    assert isinstance(session, FetchSession)
    return session


@pytest.mark.parametrize("eager", [False, True])
def test_growth_wakes_and_offsets_that_move_wait_for_the_next_answer(leader: Broker, eager: bool) -> None:
    news, woken = News(is_eager=eager), []
    news.watch(KEY, leader.partition)
    news.wake = lambda: woken.append(1)
    leader.append("m1")
    assert (list(news.take()), len(woken)) == ([KEY], 1)
    leader.partition.fetched(2, 1, 0, broker_epoch=1, now_s=0.0)
    assert (list(news.take()), len(woken)) == ([KEY], 1 + eager)
    assert not news.take()


def test_another_leader_is_news(leader: Broker) -> None:
    news = News(is_eager=False)
    news.watch(KEY, leader.partition)
    leader.order(2, 1, (1, 2), (1, 2))
    assert list(news.take()) == [KEY]


def test_what_is_forgotten_or_whose_session_is_over_is_out_of_view(leader: Broker) -> None:
    sessions = FetchSessions(sessions_max=10)
    for end in (
        lambda session: session.update(
            FetchRequest(forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])])
        ),
        lambda session: sessions.begin(request(session_id=session.id, session_epoch=-1), NOW_MS, by_id=True),
        lambda session: sessions.begin(request(session_id=session.id, session_epoch=0), NOW_MS, by_id=True),
    ):
        session = begin(sessions, request(session_epoch=0))
        session.news = News(is_eager=False)
        session.news.watch(KEY, leader.partition)
        leader.append("m")
        assert list(session.news.take()) == [KEY]
        end(session)
        leader.append("m")
        assert not session.news.take()


def test_a_fetch_looks_at_what_it_names_and_where_something_happened(leader: Broker) -> None:
    sessions = FetchSessions(sessions_max=10)
    session = begin(sessions, request(session_epoch=0))
    nothing = FetchRequest(session_id=session.id, session_epoch=1)

    def due(asked: FetchRequest, replica_epoch: int = 7) -> list[Key]:
        return [key for key, _ in session.due_to_follower(asked, replica_epoch=replica_epoch, is_eager=False)]

    assert due(request(session_epoch=0)) == [KEY]
    assert session.news is not None
    session.news.watch(KEY, leader.partition)
    assert due(nothing) == []
    assert due(request(session_id=session.id, session_epoch=2)) == [KEY]
    leader.append("m")
    assert due(nothing) == [KEY]
    assert due(nothing) == []


def test_a_follower_that_has_registered_again_is_seen_everywhere_at_once() -> None:
    session = begin(FetchSessions(sessions_max=10), request(session_epoch=0))
    nothing = FetchRequest(session_id=session.id, session_epoch=1)
    for replica_epoch, expected in ((7, [KEY]), (7, []), (8, [KEY]), (8, [])):
        found = session.due_to_follower(nothing, replica_epoch=replica_epoch, is_eager=False)
        assert [key for key, _ in found] == expected
