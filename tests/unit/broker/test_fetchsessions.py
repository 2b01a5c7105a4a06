"""Fetch sessions: which epoch is due, what is worth telling, who makes room for whom."""

from __future__ import annotations

import pytest

from ottla.broker.fetchsessions import FetchSession, FetchSessions, Key
from ottla.wire import ErrorCode
from ottla.wire.messages.k01_fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

A: Key = ("t", bytes(16), 0)
B: Key = ("t", bytes(16), 1)


def request(epoch: int, session_id: int = 0, *partitions: int, forgotten: tuple[int, ...] = ()) -> FetchRequest:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=number) for number in partitions])]
    return FetchRequest(
        session_epoch=epoch,
        session_id=session_id,
        topics=topics if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forgotten))] if forgotten else [],
    )


def begin(sessions: FetchSessions, *partitions: int, now_ms: int = 0) -> FetchSession:
    begun = sessions.begin(request(0, 0, *partitions), now_ms, by_id=False)
    assert isinstance(begun, FetchSession)
    return begun


def data(high_watermark: int = 5, records: bytes = b"", **more: int) -> PartitionData:
    return PartitionData(high_watermark=high_watermark, log_start_offset=0, records=records, **more)  # type: ignore[arg-type]


def test_epochs_follow_each_other_and_a_repeated_one_is_refused() -> None:
    sessions = FetchSessions(sessions_max=2)
    session = begin(sessions, 0)
    assert sessions.begin(request(1, session.id), 0, by_id=False) is session
    assert sessions.begin(request(1, session.id), 0, by_id=False) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.begin(request(3, session.id), 0, by_id=False) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.begin(request(2, session.id), 0, by_id=False) is session


def test_the_epoch_after_the_highest_is_one() -> None:
    sessions = FetchSessions(sessions_max=1)
    session = begin(sessions, 0)
    session.epoch = 2**31 - 1
    assert sessions.begin(request(2**31 - 1, session.id), 0, by_id=False) is session
    assert session.epoch == 1


def test_a_session_that_is_not_known_is_told_so() -> None:
    assert FetchSessions(sessions_max=1).begin(request(1, 77), 0, by_id=False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_are_not_mixed() -> None:
    sessions = FetchSessions(sessions_max=1)
    session = begin(sessions, 0)
    assert sessions.begin(request(1, session.id), 0, by_id=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.begin(request(1, session.id), 0, by_id=False) is session


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_it_names(epoch: int) -> None:
    sessions = FetchSessions(sessions_max=5)
    session = begin(sessions, 0)
    sessions.begin(request(epoch, session.id, 0), 0, by_id=False)
    assert sessions.begin(request(1, session.id), 0, by_id=False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == epoch + 1


def test_partitions_are_added_and_forgotten_and_an_empty_session_is_over() -> None:
    sessions = FetchSessions(sessions_max=1)
    session = begin(sessions, 0)
    sessions.begin(request(1, session.id, 1, forgotten=(0,)), 0, by_id=False)
    assert list(session.partitions) == [B]
    assert sessions.begin(request(2, session.id, forgotten=(1,)), 0, by_id=False) is None
    assert len(sessions) == 0


def test_what_did_not_change_is_not_told_again() -> None:
    session = begin(FetchSessions(sessions_max=1), 0)
    session.begun(A, data())
    assert not session.worth_telling(A, data())
    assert session.worth_telling(A, data(high_watermark=6))
    assert not session.worth_telling(A, data(high_watermark=6))
    assert session.worth_telling(A, data(high_watermark=6, records=b"r"))
    diverging = data(high_watermark=6)
    diverging.diverging_epoch = EpochEndOffset(epoch=0, end_offset=1)
    assert session.worth_telling(A, diverging)


def test_an_error_is_told_every_time_and_its_end_too() -> None:
    session = begin(FetchSessions(sessions_max=1), 0)
    session.begun(A, data())
    wrong = data(high_watermark=5, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert session.worth_telling(A, wrong)
    assert session.worth_telling(A, wrong)
    assert session.worth_telling(A, data())


def test_who_got_records_is_served_last_next_time() -> None:
    session = begin(FetchSessions(sessions_max=1), 0, 1)
    session.begun(A, data(records=b"r"))
    session.begun(B, data())
    assert list(session.partitions) == [A, B], "the first answer moves nobody"
    session.worth_telling(A, data(records=b"r"))
    assert list(session.partitions) == [B, A]


def test_what_was_not_found_at_first_is_served_last() -> None:
    session = begin(FetchSessions(sessions_max=1), 0, 1)
    session.begun(A, data(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    session.begun(B, data())
    assert list(session.partitions) == [B, A]


def test_a_new_session_takes_the_place_of_one_that_is_idle_and_of_no_other() -> None:
    sessions = FetchSessions(sessions_max=2, idle_min_ms=100)
    first, second = begin(sessions, 0, now_ms=0), begin(sessions, 0, now_ms=10)
    assert sessions.begin(request(1, first.id), 50, by_id=False) is first
    assert sessions.begin(request(0, 0, 0), 109, by_id=False) is None, "both are in use"
    third = begin(sessions, 0, now_ms=110)
    assert sessions.begin(request(1, second.id), 111, by_id=False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.begin(request(2, first.id), 111, by_id=False) is first
    assert sessions.begin(request(1, third.id), 111, by_id=False) is third


def test_no_sessions_at_all() -> None:
    assert FetchSessions(sessions_max=0).begin(request(0, 0, 0), 0, by_id=False) is None
