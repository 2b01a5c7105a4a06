from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.clock import ManualClock
from ottla.keeper.proto.jute import put_boolean, put_int, put_string
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import REQUEST_HEADER
from ottla.keeper.proto.txns import TXN_HEADER, DeleteTxn, Entry, MultiTxn, SetDataTxn
from ottla.keeper.server.stats import (
    KEYS_MAX,
    RECENT,
    SAMPLE_MASK,
    SAMPLED_WHOLLY,
    Sample,
    Sizes,
    Stats,
    Summary,
    SummarySet,
    namespace_of,
)
from tests.unit.keeper.monitored_ensemble import Ensemble, Person


def entry(zxid: int, made_ms: int, size: int = 40) -> Entry:
    return Entry(zxid, TXN_HEADER.pack(1, 1, zxid, made_ms, OpCode.DELETE).ljust(size))


def frame(type_: OpCode, path: str) -> bytes:
    body = bytearray(REQUEST_HEADER.pack(1, type_))
    put_string(body, path)
    put_boolean(body, value=False)
    return bytes(body)


def test_a_summary_sums_up() -> None:
    summary = Summary()
    for value in (5, 1, 3):
        summary.add(value)
    assert (summary.count, summary.total, summary.min, summary.max, summary.average) == (3, 9, 1, 5, 3)
    summary.add(7, times=3)
    assert (summary.count, summary.total, summary.min, summary.max) == (6, 30, 1, 7)


def test_an_empty_summary_is_all_zero() -> None:
    summary = Summary()
    assert (summary.count, summary.total, summary.min, summary.max, summary.average) == (0, 0, 0, 0, 0)
    assert summary.quantiles([0.5, 0.99]) == [None, None]


def test_quantiles_are_of_the_latest_values() -> None:
    summary = Summary()
    for value in range(1000):
        summary.add(value)
    oldest = 1000 - RECENT
    assert summary.quantiles([0, 0.5, 0.999]) == [oldest, oldest + RECENT // 2, 999]
    assert summary.min == 0


def test_a_sample_counts_all_and_sees_some() -> None:
    sample = Sample()
    seen = 0
    for _ in range(SAMPLED_WHOLLY + 64 * 100):
        if sample.wanted():
            sample.show(2.0)
            seen += 1
    assert sample.count == SAMPLED_WHOLLY + 64 * 100
    assert seen == SAMPLED_WHOLLY + 100
    assert sample.mask == SAMPLE_MASK
    assert sample.average == pytest.approx(2.0)


def test_a_sample_that_others_add_to_still_thins_out() -> None:
    sample = Sample()
    for _ in range(1000):
        sample.add(1.0)
    assert not sample.mask
    while not sample.wanted():
        pass
    assert sample.show(1.0) == 1
    assert sample.mask == SAMPLE_MASK


def test_a_set_of_summaries_has_an_end() -> None:
    found = SummarySet()
    for number in range(2 * KEYS_MAX):
        found.add(str(number), 1)
    found.add("0", 3)
    found.add("new", 3)
    assert len(found.by_key) == KEYS_MAX
    assert found.by_key["0"].total == 4


def test_sizes_begin_with_nothing() -> None:
    sizes = Sizes()
    assert (sizes.last, sizes.min, sizes.max) == (-1, -1, -1)
    for size in (5, 9, 7):
        sizes.add(size)
    assert (sizes.last, sizes.min, sizes.max) == (7, 5, 9)


def test_latency_is_of_reads_and_updates_together() -> None:
    stats = Stats()
    assert stats.latency.count == 0
    stats.update_latency.add(10)
    assert (stats.latency.min, stats.latency.max, stats.latency.average) == (10, 10, 10)
    stats.read_latency.add(2)
    assert (stats.latency.min, stats.latency.max, stats.latency.average) == (2, 10, 6)
    stats.packets_unasked += 1
    assert stats.packets_sent == 3


def test_reset_forgets_the_past_and_keeps_the_present() -> None:
    stats, clock = Stats(), ManualClock(monotonic=5.0)
    stats.serving(3000, 20, leads=True, votes=True)
    stats.packets_received = 7
    stats.read_latency.add(1)
    stats.proposed([entry(1, 0)])
    stats.logged([entry(1, 0)], 5.0, clock, learned=False)
    stats.reset()
    assert stats.packets_received == stats.packets_sent == stats.proposals == stats.unavailable_time.count == 0
    assert stats.proposal_sizes.last == -1
    assert stats.serving_since_ms == 3000
    clock.advance(0.004)
    stats.durable(1, clock)
    assert stats.append_to_durable_time.max == pytest.approx(4)


def test_transactions_are_followed_through_the_pipeline() -> None:
    stats, clock = Stats(), ManualClock(monotonic=5.0, wall_ms=1000)
    entries = [entry(1, 990, size=50), entry(2, 995, size=30)]
    stats.proposed(entries)
    assert (stats.proposals, stats.proposal_sizes.max, stats.proposal_sizes.last) == (2, 50, 32)
    clock.advance(0.001)
    stats.logged(entries, 5.0, clock, learned=True)
    assert stats.append_time.max == pytest.approx(1)
    assert (stats.entries_logged, stats.entries_received) == (2, 2)
    assert (stats.proposal_latency.count, stats.proposal_latency.max) == (2, 11)
    stats.logged([entry(3, 1000)], clock.monotonic(), clock, learned=False)
    assert (stats.entries_logged, stats.entries_received) == (3, 2)
    clock.advance(0.010)
    stats.durable(2, clock)
    assert (stats.entries_synced.count, stats.entries_synced.max) == (1, 2)
    assert (stats.proposal_ack_latency.count, stats.proposal_ack_latency.max) == (2, 21)
    stats.durable(2, clock)
    assert stats.entries_synced.count == 1
    stats.durable(3, clock)
    assert stats.entries_synced.total == 3
    stats.committed(2, entries[0], clock.monotonic(), clock, leads=True)
    assert (stats.commits, stats.commits_received, stats.quorum_ack_latency.count) == (2, 0, 2)
    stats.committed(1, entries[1], clock.monotonic(), clock, leads=False)
    assert (stats.commits, stats.commits_received, stats.commit_latency.max) == (2, 1, 16)
    assert (stats.propagation_latency.count, stats.propagation_latency.max) == (3, 21)


def test_clocks_that_differ_make_no_latency_negative() -> None:
    stats, clock = Stats(), ManualClock(wall_ms=1000)
    ahead = entry(1, 5000)
    stats.logged([ahead], 0.0, clock, learned=True)
    stats.durable(1, clock)
    stats.committed(1, ahead, 0.0, clock, leads=False)
    stats.acked(2, 5000, clock)
    assert stats.proposal_latency.count == stats.proposal_ack_latency.count == stats.commit_latency.count == 0
    assert not stats.ack_latency.by_key
    assert stats.commits_received == 1


def test_roles_are_timed() -> None:
    stats = Stats()
    stats.elected(100)
    stats.serving(1000, 130, leads=False, votes=True)
    stats.elected(100)
    stats.serving(2000, 140, leads=False, votes=False)
    stats.elected(100)
    stats.serving(3000, 150, leads=True, votes=True)
    assert (stats.election_time.count, stats.unavailable_time.total) == (3, 420)
    assert (stats.follower_sync_time.max, stats.observer_sync_time.max) == (30, 40)
    assert stats.leader_unavailable_time.max == 150


@pytest.mark.parametrize(
    ("sent", "namespaces"),
    [
        (frame(OpCode.GET_DATA, "/app/one"), {"app"}),
        (frame(OpCode.EXISTS, "/app"), {"app"}),
        (frame(OpCode.GET_CHILDREN2, "/"), set()),
        (frame(OpCode.GET_DATA, "relative"), set()),
        (frame(OpCode.GET_DATA, ""), set()),
        (frame(OpCode.SET_WATCHES, "/app"), set()),
        (REQUEST_HEADER.pack(1, OpCode.GET_DATA), set()),
        (REQUEST_HEADER.pack(1, OpCode.GET_DATA) + b"\xff\xff\xff\xff/app", {"app"}),
        (REQUEST_HEADER.pack(1, OpCode.GET_DATA) + b"\0\0\0\2/\xff", {"�"}),
    ],
)
def test_reads_are_told_apart_by_the_first_part_of_the_path(sent: bytes, namespaces: set[str]) -> None:
    stats = Stats()
    assert stats.read_latency.wanted()
    stats.read_shown(0.5, sent, 100)
    assert set(stats.reads_by_namespace.by_key) == namespaces


def test_reads_that_fail_read_nothing() -> None:
    stats = Stats()
    stats.read_shown(0.5, frame(OpCode.GET_DATA, "/app"), 16)
    assert not stats.reads_by_namespace.by_key
    assert stats.read_latency.max == 0.5


def test_writes_are_told_apart_by_the_first_part_of_the_path() -> None:
    stats = Stats()
    assert stats.write_size.wanted()
    stats.written(SetDataTxn("/app/one", b"12345", 1))
    assert stats.write_size.wanted()
    stats.written(MultiTxn([(OpCode.SET_DATA, SetDataTxn("/other", b"1", 1)), (OpCode.DELETE, DeleteTxn("/app"))]))
    assert {key: found.total for key, found in stats.writes_by_namespace.by_key.items()} == {"app": 17, "other": 7}
    assert stats.write_size.total == 24


def test_the_namespace_is_the_first_part() -> None:
    assert namespace_of("/a/b/c") == namespace_of("/a") == "a"


def test_reads_are_timed_where_they_are_answered(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    server = ensemble.servers[1]
    person = Person(ensemble, server)
    assert person.create("/app") == 0
    for _ in range(1000):
        assert person.read(OpCode.GET_DATA, "/app", watch=False) == 0
    stats = server.member.stats
    assert stats.read_latency.count == 1000
    assert stats.read_latency.mask == SAMPLE_MASK
    assert stats.packets_sent == 1 + 1 + 1000
    assert person.client.last_response_ms > 0
    read = stats.reads_by_namespace.by_key["app"]
    assert abs(read.count - 1000) <= SAMPLE_MASK


def test_a_client_knows_its_fastest_and_its_slowest_answer(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    person = Person(ensemble, ensemble.servers[1])
    client = person.client
    assert person.create("/app") == 0
    assert (client.latency_min_ms, client.latency_max_ms) == (1, 1)
    assert person.read(OpCode.GET_DATA, "/app") == 0
    assert (client.latency_min_ms, client.latency_max_ms, client.latency_count) == (0, 1, 2)


def test_requests_before_the_session_is_there_count_once(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    server = ensemble.servers[1]
    person = Person(ensemble, server)
    stats = server.member.stats
    before = stats.packets_received, stats.bytes_received
    late = Person.__new__(Person)
    late.ensemble, late.frontend, late.outlet = ensemble, person.frontend, person.outlet
    late.client = late.frontend.connected(late.outlet, "127.0.0.1", 1)
    hello = bytearray()
    for _ in range(3):
        put_int(hello, 0)
    put_int(hello, 5000)
    hello += bytes(8) + b"\0\0\0\x10" + bytes(16) + b"\0"
    ping = REQUEST_HEADER.pack(-2, OpCode.PING)
    late.frontend.on_frame(late.client, bytes(hello))
    late.frontend.on_frame(late.client, ping)
    ensemble.settle()
    assert late.client.received == 2
    assert stats.packets_received - before[0] == 2
    assert stats.bytes_received - before[1] == len(hello) + len(ping)
