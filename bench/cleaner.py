"""How fast a compacted topic is cleaned, beside Apache Kafka 3.9.1, same machine, same run, the same segments.

    python -m bench.cleaner [--rounds N] [--scale F] [--only none,lz4]

Ten million keys (times the scale) are written once each, and every second of them once more: what a topic of states looks like
when the cleaner comes. Batches hold 16 KB, values 100 bytes. Both brokers find the same files, with their default settings for the
cleaner but for its pause. The clock runs from the moment the topic is known until all but the active segment is clean; processor
time is that of the broker and of whatever it started. One broker runs at a time; the median round is shown.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.arguments import arguments
from bench.brokers import Contestant, Kafka39, Ottla, cpu_s
from ottla.log import Health, Loading, LogConfig, TopicPartition, load_log
from ottla.log.checkpoints import read_offsets
from ottla.records import Codec, Record, build_batch
from ottla.records.codecs import CODEC_BY_NAME
from tests.peers.processes import wait_until

KEYS = 10_000_000
PER_BATCH = 130
VALUE = bytes(range(100))
WHERE = TopicPartition("t", 0)
SETTINGS = "log.cleanup.policy=compact\nlog.cleaner.backoff.ms=50\nlog.cleaner.min.cleanable.ratio=0.01\n"


class Figures(NamedTuple):
    seconds: float
    cpu_s: float
    bytes_left: int


def main() -> None:
    args = arguments("The cleaner beside Kafka's.", "none,lz4")
    keys = int(KEYS * args.scale)
    for name in args.only.split(","):
        codec = CODEC_BY_NAME["uncompressed" if name == "none" else name]
        with tempfile.TemporaryDirectory(prefix="bench-cleaner-") as folder:
            size, end = write(Path(folder) / "written", keys, codec)
            print(f"{keys:,} keys, {keys * 3 // 2:,} records, {size / 1e6:,.0f} MB, codec {name}", flush=True)
            compare(Path(folder), args.rounds, size, end)


def compare(folder: Path, rounds: int, size: int, end: int) -> None:
    medians = {}
    for contestant in (Kafka39, Ottla):
        runs = [run(contestant, folder, number, end) for number in range(rounds)]
        median = Figures(*(statistics.median(values) for values in zip(*runs, strict=True)))
        medians[contestant.name] = median
        print(
            f"  {contestant.name:12} {median.seconds:7.1f} s {size / median.seconds / 1e6:7.0f} MB/s   "
            f"processor {median.cpu_s:6.1f} s   left {median.bytes_left / 1e6:7.1f} MB",
            flush=True,
        )
    kafka, ours = medians[Kafka39.name], medians[Ottla.name]
    print(
        f"  {kafka.seconds / ours.seconds:.1f} times Kafka's speed (goal 1), "
        f"{ours.cpu_s / kafka.cpu_s:.2f} of its processor time",
        flush=True,
    )


def write(folder: Path, keys: int, codec: Codec) -> tuple[int, int]:
    """The log of the topic; how large it is, and where its active segment starts."""
    folder.mkdir()
    now_ms = int(time.time() * 1000)
    loading = Loading(folder, WHERE, LogConfig(), Health(folder))
    log, _ = load_log(loading, now_ms=now_ms, write_checkpoints=lambda: None)
    batch: list[Record] = []
    for key in order(keys):
        batch.append(Record(key, VALUE, now_ms))
        if len(batch) == PER_BATCH:
            log.append_as_leader(build_batch(batch, codec=codec), leader_epoch=0, now_ms=now_ms)
            batch.clear()
    if batch:
        log.append_as_leader(build_batch(batch, codec=codec), leader_epoch=0, now_ms=now_ms)
    size = log.size
    log.roll(now_ms=now_ms)
    log.append_as_leader(build_batch([Record(b"last", VALUE, now_ms)]), leader_epoch=0, now_ms=now_ms)
    log.close(now_ms=now_ms)
    return size, log.segments[-1].base_offset


def order(keys: int) -> Iterator[bytes]:
    numbers = list(range(keys))
    Random(1).shuffle(numbers)
    for number in numbers:
        yield b"key-%012d" % number
    for number in numbers[::2]:
        yield b"key-%012d" % number


def run(kind: type[Contestant], folder: Path, number: int, end: int) -> Figures:
    home = folder / f"{kind.__name__}-{number}"
    home.mkdir()
    contestant = kind(home)
    with (home / "server.properties").open("a") as file:
        file.write(SETTINGS)
    shutil.copytree(folder / "written", contestant.data / "t-0")
    with contestant:
        pid, checkpoint = contestant.broker.pid, contestant.data / "cleaner-offset-checkpoint"
        cpu, started = cpu_s(pid), time.perf_counter()
        admin = AdminClient({"bootstrap.servers": contestant.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=30)
        most = [cpu]

        def cleaned() -> bool:
            most[0] = max(most[0], cpu_s(pid))  # a process that was started is gone when all is clean
            return read_offsets(checkpoint).get(WHERE) == end

        wait_until(cleaned, timeout_s=3600, what="all is clean", interval_s=0.02)
        figures = Figures(
            time.perf_counter() - started,
            max(most[0], cpu_s(pid)) - cpu,
            sum(path.stat().st_size for path in (contestant.data / "t-0").glob("*.log")),
        )
    shutil.rmtree(home)
    return figures


if __name__ == "__main__":
    main()
