"""The runtime over a real log: loading, writing, waiting for replicas, and giving up. Its shard is a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.clock import SystemClock
from ottla.base.scope import TaskScope
from ottla.coordinator.led import GATHERED_BYTES_MAX, Led, Means, RuntimeConfig
from ottla.coordinator.outcome import Outcome, Reply
from ottla.coordinator.runtime import Runtime
from ottla.log import LogConfig, LogDirectory
from ottla.metadata import BrokerId, LeaderAndIsr, TopicId, TopicPartition
from ottla.records import AppendOrigin, ControlType, EndTransactionMarker, Record, build_batch, build_marker, frames
from ottla.replica.partition import ALL
from ottla.replica.replicas import Order, Replicas
from ottla.wire import EncodeError, ErrorCode
from ottla.wire.messages.k12_heartbeat import HeartbeatResponse
from tests.sources import COMPILED

NOW_MS = 1_700_000_000_000
ONE, TWO = BrokerId(1), BrokerId(2)
TOPIC = "__state"

Entry = tuple[bytes, bytes | None]


class Codec:
    def encode(self, record: Entry) -> Entry:
        if record[0] == b"too long":
            raise EncodeError("a key that cannot be written")
        return record

    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        return None if key == b"unknown" else (key, value)


class Dictionary:
    """A shard."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes | None] = {}
        self.pending: dict[int, list[Entry]] = {}
        self.rung: list[Hashable] = []
        self.waiting: list[Reply] = []

    def put(self, key: bytes, value: bytes, reply: Reply) -> Outcome[Entry]:
        outcome: Outcome[Entry] = Outcome()
        outcome.records = [(key, value)]
        outcome.refused = lambda code: told(reply, code)
        outcome.reply(reply, HeartbeatResponse())
        return outcome

    def get(self, key: bytes, reply: Reply) -> Outcome[Entry]:
        outcome = told(reply, int(self.held.get(key) or b"-1"))
        outcome.after_log = True
        outcome.refused = lambda code: told(reply, code)
        return outcome

    def wake_later(self) -> Outcome[Entry]:
        outcome: Outcome[Entry] = Outcome()
        outcome.timers["later"] = 1
        return outcome

    def replay(self, record: Entry, *, offset: int, producer_id: int) -> None:
        assert offset >= 0
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append(record)
        else:
            self.held[record[0]] = record[1]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for key, value in self.pending.pop(producer_id, []):
            if committed:
                self.held[key] = value

    def loaded(self, now_ms: int) -> Outcome[Entry]:
        assert now_ms > 0
        outcome: Outcome[Entry] = Outcome()
        outcome.timers["loaded"] = 1
        return outcome

    def unloaded(self) -> Outcome[Entry]:
        outcome: Outcome[Entry] = Outcome()
        for reply in self.waiting:
            outcome.reply(reply, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))
        return outcome

    def on_timer(self, key: Hashable, now_ms: int) -> Outcome[Entry]:
        assert now_ms > 0
        self.rung.append(key)
        return Outcome()


def told(reply: Reply, code: int) -> Outcome[Entry]:
    outcome: Outcome[Entry] = Outcome()
    outcome.reply(reply, HeartbeatResponse(error_code=code))
    return outcome


class Bench:
    """One broker's replicas and runtime."""

    def __init__(self, folder: Path, scope: TaskScope, *, write_timeout_ms: int = 60_000, acks: int = ALL) -> None:
        self.directory = LogDirectory(folder)
        self.directory.load(lambda _topic: LogConfig(), now_ms=NOW_MS)
        self.replicas = Replicas(ONE, [self.directory], lambda _topic: LogConfig())
        self.shards: list[Dictionary] = []
        self.answers: list[int] = []
        self.runtime: Runtime[Dictionary, Entry] = Runtime(
            TOPIC,
            self._make,
            Codec(),
            RuntimeConfig(write_timeout_ms=write_timeout_ms, load_bytes=200, acks=acks),
            clock=SystemClock(),
            loop=asyncio.get_running_loop(),
            scope=scope,
            executor=ThreadPoolExecutor(1),
        )
        self.replicas.listen(self.runtime.on_leadership)

    def _make(self, _index: int) -> Dictionary:
        self.shards.append(Dictionary())
        return self.shards[-1]

    def lead(self, *, leader: BrokerId = ONE, epoch: int = 0, isr: tuple[BrokerId, ...] = (ONE,), zk: int = 1) -> None:
        where = TopicPartition(TOPIC, 0)
        if where in self.replicas and self.replicas.partition(*where).leader_epoch == epoch:
            self.replicas.partition(*where).isr_confirmed(epoch, isr, partition_epoch=zk)
            return
        order = Order(where, TopicId(b"0123456789abcdef"), LeaderAndIsr(leader, epoch, isr, 1), (ONE, TWO))
        self.replicas.obey(order, now_ms=NOW_MS, now_s=0.0)

    async def active(self) -> Dictionary:
        while isinstance(shard := self.runtime.shard(0), ErrorCode):
            assert shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0.001)
        return shard

    def put(self, key: bytes, value: bytes) -> None:
        assert not self.runtime.run(0, lambda shard, _now: shard.put(key, value, self.reply))

    def gather(self, key: bytes, value: bytes) -> None:
        assert not self.runtime.run_gathered(0, lambda shard, _now: shard.put(key, value, self.reply))

    def batches(self) -> int:
        fetched = self.replicas.partition(TOPIC, 0).log.read(0, 1 << 24)
        return 0 if fetched.range is None else len(list(frames(fetched.range.read())))

    def get(self, key: bytes) -> None:
        assert not self.runtime.run(0, lambda shard, _now: shard.get(key, self.reply))

    def reply(self, response: object) -> None:
        assert isinstance(response, HeartbeatResponse)
        self.answers.append(response.error_code)

    def end_offset_reached(self) -> None:
        """As if the other replica had fetched all there is."""
        partition = self.replicas.partition(TOPIC, 0)
        partition.log.update_high_watermark(partition.log.log_end_offset)
        partition.wake()

    def stop(self) -> None:
        self.replicas.checkpoint()
        self.directory.close(now_ms=NOW_MS)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


def run(folder: Path, test: Callable[[Bench], object], **options: int) -> None:
    async def main() -> None:
        async with TaskScope() as scope:
            bench = Bench(folder, scope, **options)
            made = test(bench)
            if asyncio.iscoroutine(made):
                await made
            bench.stop()

    asyncio.run(main())


def test_records_are_written_replayed_and_loaded_again(tmp_path: Path) -> None:
    async def write(bench: Bench) -> None:
        bench.lead()
        assert bench.runtime.shard(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shard = await bench.active()
        for number in range(100):
            bench.put(b"key%d" % (number % 10), b"%d" % number)
        assert shard.held[b"key9"] == b"99"
        assert bench.answers == [0] * 100

    async def read(bench: Bench) -> None:
        bench.lead(epoch=1)
        shard = await bench.active()
        assert shard.held == {b"key%d" % number: b"%d" % (90 + number) for number in range(10)}
        await until(lambda: bool(shard.rung))
        assert shard.rung == ["loaded"]

    run(tmp_path, write)
    run(tmp_path, read)


def test_transactions_count_by_their_markers(tmp_path: Path) -> None:
    def batch(producer_id: int, sequence: int, value: bytes) -> bytes:
        record = Record(b"k%d" % producer_id, value, NOW_MS)
        return build_batch(
            [record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )

    async def write(bench: Bench) -> None:
        bench.lead()
        await bench.active()
        partition = bench.replicas.partition(TOPIC, 0)
        for producer_id, kind in ((1, ControlType.COMMIT), (2, ControlType.ABORT)):
            partition.append(batch(producer_id, 0, b"1"), acks=ALL, now_ms=NOW_MS)
            marker = build_marker(
                EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS
            )
            partition.append(marker, acks=ALL, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        partition.append(build_batch([Record(b"unknown", b"x", NOW_MS)]), acks=ALL, now_ms=NOW_MS)

    async def read(bench: Bench) -> None:
        bench.lead(epoch=1)
        assert (await bench.active()).held == {b"k1": b"1"}

    run(tmp_path, write)
    run(tmp_path, read)


def test_answers_wait_for_the_replicas_and_so_do_readers(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead(isr=(ONE, TWO))
        await bench.active()
        bench.put(b"k", b"7")
        bench.get(b"k")
        assert bench.answers == [], "another broker might take it back"
        bench.end_offset_reached()
        assert bench.answers == [0, 7]
        bench.get(b"k")
        assert bench.answers == [0, 7, 7]

    run(tmp_path, test)


def test_a_write_that_takes_too_long_is_told_so_and_stays(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead(isr=(ONE, TWO))
        shard = await bench.active()
        bench.put(b"k", b"7")
        await until(lambda: bool(bench.answers))
        assert bench.answers == [ErrorCode.REQUEST_TIMED_OUT]
        assert shard.held == {b"k": b"7"}, "as it is in the log"
        bench.end_offset_reached()
        assert bench.answers == [ErrorCode.REQUEST_TIMED_OUT]

    run(tmp_path, test, write_timeout_ms=20)


def test_a_write_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead()
        shard = await bench.active()
        bench.replicas.configure(TOPIC, LogConfig(), min_insync_replicas=2)
        bench.put(b"k", b"7")
        assert bench.answers == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert shard.held == {}

    run(tmp_path, test)


def test_what_is_gathered_in_a_turn_is_one_batch_and_its_answers_wait_for_the_replicas(tmp_path: Path) -> None:
    async def write(bench: Bench) -> None:
        bench.lead(isr=(ONE, TWO))
        shard = await bench.active()
        for number in range(100):
            bench.gather(b"key%d" % (number % 10), b"%d" % number)
        assert bench.batches() == 0
        await until(lambda: bool(shard.held))
        assert bench.batches() == 1
        assert bench.answers == [], "another broker might take it back"
        bench.gather(b"key0", b"7")
        await until(lambda: bench.batches() == 2)
        bench.end_offset_reached()
        assert bench.answers == [0] * 101

    async def read(bench: Bench) -> None:
        bench.lead(epoch=1)
        held = {b"key%d" % number: b"%d" % (90 + number) for number in range(10)}
        assert (await bench.active()).held == {**held, b"key0": b"7"}

    run(tmp_path, write)
    run(tmp_path, read)


def test_whoever_asks_for_more_decides_on_what_was_gathered_before(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead()
        shard = await bench.active()
        bench.gather(b"k", b"7")
        bench.get(b"k")
        assert bench.answers == [0, 7]
        bench.gather(b"k", b"8")
        assert bench.runtime.shard(0) is shard
        assert shard.held == {b"k": b"8"}
        assert bench.batches() == 2

    run(tmp_path, test)


def test_what_is_gathered_never_makes_a_batch_that_the_topic_does_not_take(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead()
        await bench.active()
        for number in range(4):
            bench.gather(b"%d" % number, bytes(GATHERED_BYTES_MAX // 2))
        await until(lambda: len(bench.answers) == 4)
        assert bench.batches() == 4
        bench.replicas.configure(TOPIC, LogConfig(max_message_bytes=300), min_insync_replicas=1)
        for number in range(10):
            bench.gather(b"%d" % number, bytes(50))
        bench.gather(b"large", bytes(400))
        bench.gather(b"small", b"")
        await until(lambda: len(bench.answers) == 16)
        assert bench.answers[4:] == [*[0] * 10, ErrorCode.MESSAGE_TOO_LARGE, 0]

    run(tmp_path, test)


def test_what_is_gathered_is_refused_each_with_its_own_answer(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead()
        shard = await bench.active()
        bench.gather(b"k", b"7")
        bench.gather(b"too long", b"8")
        assert bench.answers == [0, ErrorCode.UNKNOWN_SERVER_ERROR], "nobody else hears of what cannot be encoded"
        bench.replicas.configure(TOPIC, LogConfig(), min_insync_replicas=2)
        bench.gather(b"k", b"8")
        bench.gather(b"l", b"9")
        await until(lambda: len(bench.answers) == 4)
        assert bench.answers[2:] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        bench.gather(b"k", b"8")
        bench.lead(leader=TWO, epoch=1, isr=(ONE, TWO))
        assert bench.answers[4:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert shard.held == {b"k": b"7"}

    run(tmp_path, test)


def test_a_write_waits_for_nobody_else_where_that_was_asked_for(tmp_path: Path) -> None:
    async def alone(bench: Bench) -> None:
        bench.lead(isr=(ONE, TWO))
        bench.replicas.configure(TOPIC, LogConfig(), min_insync_replicas=2)
        shard = await bench.active()
        bench.put(b"k", b"7")
        assert bench.answers == [0]
        bench.lead(isr=(ONE,), zk=2)
        bench.put(b"k", b"8")
        assert bench.answers == [0, 0], "however many there should be"
        assert shard.held == {b"k": b"8"}

    async def two(bench: Bench) -> None:
        bench.lead(isr=(ONE, TWO), epoch=1)
        shard = await bench.active()
        bench.put(b"k", b"9")
        assert bench.answers == [ErrorCode.INVALID_REQUIRED_ACKS]
        assert shard.held == {b"k": b"8"}

    run(tmp_path, alone, acks=1)
    run(tmp_path, two, acks=2)


def test_who_waits_is_told_when_another_broker_leads_and_timers_end(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead(isr=(ONE, TWO))
        shard = await bench.active()
        bench.put(b"k", b"7")
        bench.get(b"k")
        shard.waiting.append(bench.reply)
        bench.runtime.run(0, lambda shard, _now: shard.wake_later())
        bench.lead(leader=TWO, epoch=1, isr=(ONE, TWO))
        assert bench.answers == [*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2, ErrorCode.NOT_COORDINATOR]
        assert bench.runtime.shard(0) is ErrorCode.NOT_COORDINATOR
        assert bench.runtime.run(0, lambda shard, _now: shard.get(b"k", bench.reply)) is ErrorCode.NOT_COORDINATOR
        await asyncio.sleep(0.01)
        assert "later" not in shard.rung
        bench.lead(epoch=2)
        assert (await bench.active()) is not shard

    run(tmp_path, test)


class Alarms:
    """A loop that has nothing but timers, and a time that is set."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.set: list[tuple[float, Callable[..., object], tuple[object, ...]]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, callback: Callable[..., object], *args: object) -> SimpleNamespace:
        alarm = (when_s, callback, args)
        self.set.append(alarm)
        return SimpleNamespace(cancel=lambda: self.set.remove(alarm))

    def pass_until(self, now_s: float) -> None:
        while due := sorted((alarm for alarm in self.set if alarm[0] <= now_s), key=lambda alarm: alarm[0]):
            self.now_s = due[0][0]
            self.set.remove(due[0])
            due[0][1](*due[0][2])
        self.now_s = now_s


@pytest.mark.skipif(COMPILED, reason="compiled, a shard is led for nothing but a partition")
def test_a_timer_that_is_pushed_back_rings_when_it_is_due_and_one_that_is_taken_back_never() -> None:
    loop, shard = Alarms(), Dictionary()
    means = Means(Codec(), RuntimeConfig(write_timeout_ms=1, load_bytes=1), SystemClock(), cast("Any", loop))
    led: Led[Dictionary, Entry] = Led(means, cast("Any", None), shard)

    def set_timers(**timers: int | None) -> None:
        outcome: Outcome[Entry] = Outcome()
        outcome.timers.update(timers)
        led.do(outcome)

    set_timers(back=1000, forth=5000, never=2000)
    loop.pass_until(0.75)
    set_timers(back=1000, forth=250)
    assert len(loop.set) == 3
    loop.pass_until(1.5)
    assert shard.rung == ["forth"]
    set_timers(back=1000, never=1000)
    set_timers(never=None)
    loop.pass_until(2.25)
    assert shard.rung == ["forth"]
    loop.pass_until(2.5)
    assert shard.rung == ["forth", "back"]
    assert not loop.set


def test_a_new_epoch_of_the_same_leader_keeps_the_shard(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.lead()
        shard = await bench.active()
        bench.lead(epoch=1, zk=2)
        assert bench.runtime.shard(0) is shard

    run(tmp_path, test)


def test_a_log_that_cannot_be_read_has_no_coordinator(tmp_path: Path) -> None:
    async def write(bench: Bench) -> None:
        bench.lead()
        await bench.active()
        for number in range(20):
            bench.put(b"key", b"%d" % number)

    async def read(bench: Bench) -> None:
        (path,) = (tmp_path / f"{TOPIC}-0").glob("*.log")
        damaged = bytearray(path.read_bytes())
        damaged[-1] ^= 1
        path.write_bytes(damaged)
        bench.lead(epoch=1)
        await until(lambda: bench.runtime.shard(0) is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert bench.runtime.shard(0) is ErrorCode.NOT_COORDINATOR

    run(tmp_path, write)
    run(tmp_path, read)
