"""Disks that refuse a broker: the directory is offline and says why, producers and consumers are told, the other one serves on.

The broker has two log directories and a partition in each. Whatever happens to the one, what was acknowledged is there
again, in order and once, when the disk is well and the broker was restarted. With a second broker in sync nobody is refused at
all: that one leads.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.records import Record, build_batch
from ottla.wire import decode
from ottla.wire.messages.k03_metadata import MetadataResponse, MetadataResponsePartition
from tests.chaos.disks import strace
from tests.chaos.namespaces import Holder
from tests.chaos.records import create_topic, read_all
from tests.hostile.kafka import FETCH, LIST_OFFSETS, METADATA, NONE, Connection, header, i32, i64, string
from tests.hostile.kafka import produce as produce_request
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers

TOPIC = "kept"
STORAGE_ERROR = 56
NOT_LEADER = 6
MIB = 1 << 20
SETTINGS = {
    "log.segment.bytes": "300000",
    "log.flush.interval.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "zookeeper.session.timeout.ms": "10000",  # longer than a broker that is traced stands still
}


class Ground:
    """A broker with a disk of its own for one of its directories, or with one that ``strace`` makes fail."""

    def __init__(self, folder: Path, keepers: OttlaKeepers, *, size: int | None = None) -> None:
        self.well, self.ill = folder / "well", folder / "ill"
        self.ill.mkdir(parents=True)
        settings = {**SETTINGS, "log.dirs": f"{self.well},{self.ill}"}
        self.brokers = OttlaBrokers(1, keepers.hosts, folder, settings=settings)
        self.process = self.brokers.brokers[0]
        self.holder: Holder | None = None
        self.seen = self.ill
        if size is not None:
            self.holder = Holder("--mount")
            self.holder.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.ill)
            self.seen = self.holder.path(self.ill)
            self.process.command = [*self.holder.enter, *self.process.command]
        self.acked: dict[int, list[bytes]] = {0: [], 1: []}
        self.unknown: list[bytes] = []

    def create(self) -> None:
        self.brokers.start(0)
        create_topic(self.brokers.bootstrap, partitions=2, name=TOPIC)
        (on_ill,) = [path for path in self.seen.iterdir() if path.is_dir()]
        self.bad = int(on_ill.name.rsplit("-", 1)[1])
        self.good = 1 - self.bad

    def produce(self, partition: int) -> int:
        """One batch more; its error code."""
        value = b"%d %d " % (partition, len(self.acked[partition])) + bytes(20_000)
        with Connection(self.brokers.ports[0]) as connection:
            body = produce_request(TOPIC, build_batch([Record(None, value, 1)]), acks=-1)
            at = body.index(i32(1) + i32(0), 30) + 4
            answer = connection.call(body[:at] + i32(partition) + body[at + 4 :])
        code = int.from_bytes(answer[4 + 4 + 2 + len(TOPIC) + 8 :][:2], "big", signed=True)
        if code == NONE:
            self.acked[partition].append(value)
        else:
            self.unknown.append(value)
        return code

    def produce_once_led(self, partition: int) -> int:
        """For a broker that has just started: the controller may not have said yet that it leads."""
        codes: list[int] = []

        def is_led() -> bool:
            codes.append(self.produce(partition))
            return codes[-1] != NOT_LEADER

        wait_until(is_led, timeout_s=120, what="it leads")
        return codes[-1]

    def produce_until_refused(self) -> None:
        codes = []
        for _ in range(2000):
            codes.append(self.produce(self.bad))
            if codes[-1] != NONE:
                break
        assert codes[-1] == STORAGE_ERROR, codes[-1]

    def fetch(self, partition: int) -> int:
        body = header(FETCH, 4) + i32(-1) + i32(0) + i32(1) + i32(MIB) + b"\0" + i32(1) + string(TOPIC) + i32(1)
        with Connection(self.brokers.ports[0]) as connection:
            answer = connection.call(body + i32(partition) + i64(0) + i32(1000))
        return int.from_bytes(answer[4 + 4 + 4 + 2 + len(TOPIC) + 8 :][:2], "big", signed=True)

    def latest(self, partition: int) -> int:
        body = header(LIST_OFFSETS, 4) + i32(-1) + b"\0" + i32(1) + string(TOPIC) + i32(1)
        with Connection(self.brokers.ports[0]) as connection:
            answer = connection.call(body + i32(partition) + i32(-1) + i64(-1))
        return int.from_bytes(answer[4 + 4 + 4 + 2 + len(TOPIC) + 8 :][:2], "big", signed=True)

    def check_offline(self, why: str) -> None:
        """The one is offline, with one line that says why; the other serves, and so does the broker."""
        for ask in (self.produce, self.fetch, self.latest):
            assert ask(self.bad) == STORAGE_ERROR
            assert ask(self.good) == NONE
        told = [line for line in self.process.tail(1 << 20).splitlines() if "goes offline" in line]
        assert len(told) == 1, told
        assert why in told[0]
        assert str(self.ill) in told[0]
        assert "Traceback" not in self.process.tail(1 << 20)
        assert "CRITICAL" not in self.process.tail(1 << 20)

    def is_offline(self) -> bool:
        return "goes offline" in self.process.tail(1 << 20)

    def restart(self) -> None:
        self.process.signal(signal.SIGTERM)
        self.process.wait(120)
        self.brokers.start(0)

    def check_kept(self) -> None:
        """All that was acknowledged is there; what was refused may be, at the end, but only whole."""
        for partition in (self.good, self.bad):
            assert self.produce_once_led(partition) == NONE
            found = [text for _, text in read_all(self.brokers.bootstrap, partition, topic=TOPIC)]
            expected = [value.decode() for value in self.acked[partition]]
            extra = [text for text in found if text not in expected]
            assert [text for text in found if text in expected] == expected
            assert len(extra) <= len(self.unknown) if partition == self.bad else not extra

    def close(self) -> None:
        self.process.kill()
        if self.holder is not None:
            self.holder.close()


@contextmanager
def ground(folder: Path, keepers: OttlaKeepers, *, size: int | None = None) -> Iterator[Ground]:
    made = Ground(folder, keepers, size=size)
    try:
        made.create()
        yield made
    finally:
        made.close()


def test_the_disk_is_full(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers, ground(tmp_path, keepers, size=8 * MIB) as on:
        for _ in range(20):
            assert on.produce(on.good) == NONE
        on.produce_until_refused()
        assert len(on.acked[on.bad]) > 100
        on.check_offline("the disk is full")
        on.holder.run("mount", "-o", f"remount,size={64 * MIB}", on.ill)  # type: ignore[union-attr]
        on.restart()
        on.check_kept()


def test_the_disk_is_read_only_at_the_start(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers, ground(tmp_path, keepers, size=64 * MIB) as on:
        for _ in range(5):
            assert on.produce(on.bad) == NONE
        on.process.signal(signal.SIGTERM)
        on.process.wait(120)
        holder = on.holder
        assert holder is not None
        holder.run("mount", "-o", "remount,ro", on.ill)
        on.brokers.start(0)
        on.check_offline("read-only")
        holder.run("mount", "-o", "remount,rw", on.ill)
        on.restart()
        on.check_kept()


class Pair:
    """Two brokers, of which the first leads every partition, two of them on a small disk."""

    def __init__(self, folder: Path, keepers: OttlaKeepers, holder: Holder) -> None:
        settings = {**SETTINGS, "log.index.size.max.bytes": "4096"}
        self.brokers = OttlaBrokers(2, keepers.hosts, folder, settings=settings)
        self.ill = folder / "ill"
        self.ill.mkdir()
        config = self.brokers.folders[0] / "server.properties"
        well = self.brokers.data()
        config.write_text(config.read_text().replace(f"log.dirs={well}\n", f"log.dirs={well},{self.ill}\n"))
        holder.run("mount", "-t", "tmpfs", "-o", f"size={8 * MIB}", "tmpfs", self.ill)
        self.seen = holder.path(self.ill)
        self.brokers.brokers[0].command = [*holder.enter, *self.brokers.brokers[0].command]
        self.on_ill: list[int] = []

    def create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.brokers.bootstrap, "log_level": 0})
        topic = NewTopic(TOPIC, 4, replica_assignment=[[1, 2]] * 4)
        admin.create_topics([topic])[TOPIC].result(timeout=120)
        self.wait_led(dict.fromkeys(range(4), 1), offline=[])

        def is_made() -> bool:
            self.on_ill = [number for number in range(4) if (self.seen / f"{TOPIC}-{number}").is_dir()]
            return len(self.on_ill) == 2

        wait_until(is_made, timeout_s=120, what="two on each disk")

    def wait_led(self, leaders: dict[int, int], *, offline: list[int]) -> None:
        """Until the second broker says so of all partitions; ``offline`` are those whose first replica is."""

        def is_so() -> bool:
            told = self.told()
            return {at: each.leader_id for at, each in told.items()} == leaders and all(
                (each.isr_nodes, each.offline_replicas) == (([2], [1]) if at in offline else ([1, 2], []))
                for at, each in told.items()
            )

        wait_until(is_so, timeout_s=120, what=f"led by {leaders}")

    def told(self) -> dict[int, MetadataResponsePartition]:
        with Connection(self.brokers.ports[1]) as connection:
            answer = connection.call(header(METADATA, 5) + i32(1) + string(TOPIC) + b"\0")
        (topic,) = decode(MetadataResponse, 5, answer[4:]).topics
        return {each.partition_index: each for each in topic.partitions}


def test_what_was_led_on_a_full_disk_is_led_by_the_other_broker_and_producers_do_not_notice(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers, closing(Holder("--mount")) as holder:
        pair = Pair(tmp_path, keepers, holder)
        with pair.brokers:
            pair.create()
            bad, beside = pair.on_ill
            refused: list[KafkaError] = []

            def told(error: KafkaError | None, _message: Message) -> None:
                if error is not None:
                    refused.append(error)

            producer = Producer(
                {
                    "bootstrap.servers": pair.brokers.bootstrap,
                    "enable.idempotence": True,
                    "batch.size": 100_000,  # smaller than a segment
                    "log_level": 0,
                }
            )
            for number in range(600):
                value = b"%d " % number + bytes(20_000)
                producer.produce(TOPIC, value, partition=bad, on_delivery=told)
                producer.poll(0)
            assert producer.flush(120) == 0
            assert refused == []
            leaders = {number: 2 if number in (bad, beside) else 1 for number in range(4)}
            pair.wait_led(leaders, offline=[bad, beside])
            found = [int(text.split()[0]) for _, text in read_all(pair.brokers.bootstrap, bad, topic=TOPIC)]
            assert found == list(range(600))
            assert "CRITICAL" not in pair.brokers.brokers[0].tail(1 << 20)

            holder.run("mount", "-o", f"remount,size={64 * MIB}", pair.ill)
            pair.brokers.brokers[0].signal(signal.SIGTERM)
            pair.brokers.brokers[0].wait(120)
            pair.brokers.start(0)
            wait_until(
                lambda: all(set(each.isr_nodes) == {1, 2} for each in pair.told().values()),
                timeout_s=120,
                what="both are in sync again",
            )


CALLS = ["pwritev,pwritev2,pwrite64", "fsync,fdatasync"]
REASONS = {
    "EIO": "the device reports an error",
    "ENOSPC": "the disk is full",
    "EROFS": "the file system is mounted read-only",
}


@pytest.mark.parametrize(("call", "error", "when"), [(CALLS[0], "EROFS", 1), (CALLS[1], "EIO", 3)])
def test_a_call_fails(tmp_path: Path, call: str, error: str, when: int) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        assert fail_at(tmp_path, keepers, call, error, when, surely=True)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("error", REASONS)
@pytest.mark.parametrize("call", [*CALLS, "rename", "ftruncate", "unlink"])
def test_a_call_fails_at_any_time(tmp_path: Path, call: str, error: str) -> None:
    failed = 0
    for when in (1, 2, 3, 5, 8, 13):
        with OttlaKeepers(1, tmp_path / f"keeper-{when}") as keepers:
            failed += fail_at(tmp_path / str(when), keepers, call, error, when)
    assert failed, "it was never called"


def fail_at(folder: Path, keepers: OttlaKeepers, call: str, error: str, when: int, *, surely: bool = False) -> bool:
    """The ``when``-th such call on the ill directory fails, once: that is enough. Whether it did.

    ``surely``: what is produced leads to that many, be it in the flush that comes when a quick machine is done producing.
    """
    with ground(folder, keepers) as on:
        for partition in (on.good, on.bad):
            for _ in range(3):
                assert on.produce(partition) == NONE
        on.process.signal(signal.SIGTERM)
        on.process.wait(120)
        (log_folder,) = [path for path in on.ill.iterdir() if path.is_dir()]
        names = [f"{offset:020d}{suffix}" for offset in range(60) for suffix in (".log", ".index", ".timeindex")]
        paths = [log_folder, *(log_folder / name for name in names)]
        paths += [on.ill, on.ill / "recovery-point-offset-checkpoint.tmp"]
        with strace(on.process, folder / "strace", call, f"error={error}:when={when}", paths):
            on.brokers.start(0)
        codes = []
        for _ in range(60):
            codes.append(on.produce(on.bad))
            assert on.produce(on.good) == NONE
            if codes[-1] != NONE or on.is_offline():
                break
        failed = surely or codes[-1] != NONE or on.is_offline()
        if failed:
            wait_until(on.is_offline, timeout_s=120, what="it says so")
            assert set(codes[:-1]) <= {NONE}
            on.check_offline(REASONS[error])
        else:
            assert set(codes) == {NONE}
        on.restart()
        on.check_kept()
        return failed
