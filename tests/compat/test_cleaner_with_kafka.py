"""The same log, cleaned by Apache Kafka 3.9.1 and by a broker of ours: the same batches are left, with the same records."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.log import LogConfig
from ottla.log.checkpoints import read_offsets
from ottla.records import AppendOrigin, Codec, Record, build_batch, read_batch
from ottla.records.batch import DELETE_HORIZON_FLAG, BatchHeader, frames, read_header
from tests.compat.test_log_with_kafka import dump
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import KafkaBrokers
from tests.unit.log.logs import marker, open_log

NOW_MS = int(time() * 1000)  # or their producers would be forgotten
KEYS = 40
SEGMENT_BYTES = 40_000
SETTINGS = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleanup.policy": "compact",
    "log.segment.bytes": str(SEGMENT_BYTES),
}


class Cleaned(NamedTuple):
    """What a broker has left of the log."""

    folder: Path
    bootstrap: str

    def data(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder.glob("*.log")))

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        data = self.data()
        return [
            (read_header(data, frame.position), data[frame.position : frame.position + frame.size])
            for frame in frames(data)
        ]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every codec, deleted keys, idempotent producers, transactions that were committed and some that were not."""
    folder = tmp_path_factory.mktemp("written") / "t-0"
    log, _ = open_log(folder, LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=500))
    for number in range(400):
        made = [
            Record(
                b"key-%d" % ((number * 7 + i * 3) % KEYS if number % 50 else 1000 + number + i),
                None if (number + i) % 11 == 0 else b"value-%d-%d " % (number, i) * 10,
                NOW_MS + number * 10 - i * 3,
                ((b"h", b"%d" % i),) if i == 2 else (),
            )
            for i in range(8)
        ]
        log.append_as_leader(build_batch(made, codec=list(Codec)[number % 5]), leader_epoch=0, now_ms=NOW_MS)
        if number % 10 == 0:
            for data, origin in (
                (produced(1, number // 10, transactional=True), AppendOrigin.CLIENT),
                (marker(1, commit=number % 20 == 0), AppendOrigin.COORDINATOR),
                (produced(100 + number, 0), AppendOrigin.CLIENT),
            ):
                log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS, origin=origin)
    log.close(now_ms=NOW_MS)
    assert len(log.segments) > 4
    return folder


def produced(producer_id: int, sequence: int, *, transactional: bool = False) -> bytes:
    return build_batch(
        [Record(b"k", b"%d" % sequence, NOW_MS)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=transactional,
    )


@pytest.fixture(scope="module")
def keepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaKeepers]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("keeper")) as running:
        yield running


def wait_cleaned(data: Path, bootstrap: str, end: int) -> None:
    """Register the topic that the log is of, and wait until all but the active segment is clean."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=120)
    checkpoint = data / "cleaner-offset-checkpoint"

    def cleaned() -> bool:
        return {str(where): offset for where, offset in read_offsets(checkpoint).items()}.get("t-0") == end

    wait_until(cleaned, timeout_s=60, what="the log is clean")


@pytest.fixture(scope="module")
def theirs(keepers: OttlaKeepers, written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cleaned]:
    folder = tmp_path_factory.mktemp("theirs")
    brokers = KafkaBrokers(1, f"{keepers.hosts}/theirs", folder, settings=SETTINGS)
    data = folder / "broker-0" / "data"
    shutil.copytree(written, data / "t-0")
    with brokers:
        wait_cleaned(data, brokers.bootstrap, active_base(written))
        yield Cleaned(data / "t-0", brokers.bootstrap)


@pytest.fixture(scope="module")
def ours(keepers: OttlaKeepers, written: Path, tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    folder = tmp_path_factory.mktemp("ours")
    brokers = OttlaBrokers(1, f"{keepers.hosts}/ours", folder, settings=SETTINGS)
    shutil.copytree(written, brokers.data() / "t-0")
    with brokers:
        wait_cleaned(brokers.data(), brokers.bootstrap, active_base(written))
        brokers.brokers[0].signal(signal.SIGTERM)
        assert brokers.brokers[0].wait(120) == 0
    return Cleaned(brokers.data() / "t-0", brokers.bootstrap)


def active_base(folder: Path) -> int:
    return int(max(folder.glob("*.log")).stem)


def test_the_same_batches_and_records_are_left(ours: Cleaned, theirs: Cleaned, written: Path) -> None:
    mine, other = ours.batches(), theirs.batches()
    before = sum(path.stat().st_size for path in written.glob("*.log"))
    assert sum(len(data) for _, data in mine) < before / 4
    assert [describe(header) for header, _ in mine] == [describe(header) for header, _ in other]
    assert [list(read_batch(data)) for _, data in mine] == [list(read_batch(data)) for _, data in other]
    uncompressed = [i for i, (header, _) in enumerate(mine) if is_plain(header)]
    assert len(uncompressed) > 5
    assert [mine[i][1] for i in uncompressed] == [other[i][1] for i in uncompressed]
    assert any(header.record_count == 0 for header, _ in mine)
    assert any(header.attributes & DELETE_HORIZON_FLAG for header, _ in mine)
    bases = [sorted(path.name for path in side.folder.glob("*.log")) for side in (ours, theirs)]
    assert bases[0] == bases[1]


def is_plain(header: BatchHeader) -> bool:
    return header.codec_id == Codec.NONE and not header.attributes & DELETE_HORIZON_FLAG


def describe(header: BatchHeader) -> BatchHeader:
    """Without what depends on the library that packs, and on the time of day."""
    header = header.replace(crc=0, length=0)
    return header.replace(base_timestamp=0) if header.attributes & DELETE_HORIZON_FLAG else header


def test_kafka_finds_nothing_wrong_with_what_we_cleaned(ours: Cleaned, kafka_libs: Path) -> None:
    text = dump(kafka_libs, sorted(ours.folder.glob("*.log")), "--deep-iteration", "--print-data-log")
    assert text.count("isvalid: true") == len(ours.batches())
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", text)
    dump(kafka_libs, sorted(ours.folder.glob("*index")))


def test_kafka_serves_what_we_cleaned(ours: Cleaned, keepers: OttlaKeepers, tmp_path: Path, kafka_libs: Path) -> None:
    del kafka_libs  # it is there
    brokers = KafkaBrokers(1, f"{keepers.hosts}/serving", tmp_path, settings={"log.cleanup.policy": "compact"})
    another_topic = shutil.ignore_patterns("partition.metadata")
    shutil.copytree(ours.folder, tmp_path / "broker-0" / "data" / "t-0", ignore=another_topic)
    with brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=120)
        found = consumed(brokers.bootstrap)
    committed = [
        record for _, data in ours.batches() if not read_header(data).is_control for record in read_batch(data)
    ]
    aborted = {txn.first_offset for txn in open_log(ours.folder)[0].aborted_transactions(0, 1 << 60)}
    assert found == [(r.offset, r.key, r.value) for r in committed if r.offset not in aborted]


def consumed(bootstrap: str) -> list[tuple[int | None, bytes | None, bytes | None]]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("t", 0, 0)])
    found = []
    while (message := consumer.poll(120)) is not None and message.error() is None:
        found.append((message.offset(), message.key(), message.value()))
    assert message is not None, "no end of the partition"
    consumer.close()
    return found
