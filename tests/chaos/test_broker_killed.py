"""A broker that is killed and comes back, again and again, under load: what was acknowledged is there, in order, once."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.chaos.records import Writer, check_partition, create_topic, read_all, sabotaged
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers

PARTITIONS = 4
SETTINGS = {
    "log.segment.bytes": "200000",
    "log.index.interval.bytes": "2000",
    "zookeeper.session.timeout.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "log.flush.interval.ms": "400",
}
"""Small segments and frequent flushes, so that the broker dies in the middle of each."""


def test_a_broker_is_killed_under_load(tmp_path: Path) -> None:
    kill_under_load(tmp_path, rounds=2)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_broker_is_killed_under_load_again_and_again(tmp_path: Path) -> None:
    kill_under_load(tmp_path, rounds=60)


@pytest.mark.long
def test_a_broker_with_a_mistake_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"acknowledged|lost|refused"):
        kill_under_load(tmp_path, rounds=3, mistake="write_later")


def kill_under_load(folder: Path, *, rounds: int, mistake: str | None = None) -> None:
    draw = Random(rounds)
    with (
        OttlaKeepers(1, folder / "keeper") as keepers,
        sabotaged(OttlaBrokers(1, keepers.hosts, folder, settings=SETTINGS), mistake) as brokers,
    ):
        create_topic(brokers.bootstrap, partitions=PARTITIONS)
        writers = [
            Writer(brokers.bootstrap, n % PARTITIONS, name=f"w{n}", pause_s=0.0005) for n in range(PARTITIONS + 2)
        ]
        for writer in writers:
            writer.start()
        for _ in range(rounds):
            for writer in writers:
                writer.wait_acked(30)
            time.sleep(draw.random() * 0.3)  # at any moment of what it does
            brokers.kill(0)
            brokers.start(0)
        for writer in writers:
            writer.stop()
        tail = brokers.brokers[0].tail(1 << 20)
        assert "stays closed" not in tail, tail
        for partition in range(PARTITIONS):
            check_partition(read_all(brokers.bootstrap, partition), [w for w in writers if w.partition == partition])


def test_a_broker_that_is_told_to_stop_starts_without_reading_a_segment(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path / "keeper") as keepers,
        OttlaBrokers(1, keepers.hosts, tmp_path, settings=SETTINGS) as brokers,
    ):
        create_topic(brokers.bootstrap, partitions=PARTITIONS)
        writers = [Writer(brokers.bootstrap, n, name=f"w{n}") for n in range(PARTITIONS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.wait_acked(5000)
            writer.stop()
        process = brokers.brokers[0]
        process.signal(signal.SIGTERM)
        assert process.wait(120) == 0, process.tail()
        assert (brokers.data() / ".kafka_cleanshutdown").exists()
        segments = sorted(brokers.data().glob("*/*.log"))
        assert len(segments) > PARTITIONS
        # strace says of every read which file it is of.
        command, traced = process.command, tmp_path / "strace"
        calls = "trace=read,pread64,preadv,mmap"
        process.command = ["strace", "-D", "-f", "-qq", "-y", "-o", str(traced), "-e", calls, "--", *command]
        brokers.start(0)
        process.command = command
        touched = [line for line in traced.read_text().splitlines() if ".log>" in line]
        assert touched == []
        for partition in range(PARTITIONS):
            check_partition(read_all(brokers.bootstrap, partition), [w for w in writers if w.partition == partition])
        # It would have told of them:
        assert any(".log>" in line for line in traced.read_text().splitlines())
