"""A crash at the n-th write, sync or rename of a broker, for every n: what it acknowledged is there, in order, once.

In each life a broker makes a topic, takes batches, rolls, flushes, checkpoints and stops; one system call of it ends it. The
next start must find the log in order without a complaint, and take more. A sweep ends at the first n that the broker lives
through.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.records import Record, build_batch
from tests.chaos.disks import strace
from tests.chaos.records import TOPIC, read_all, sabotaged
from tests.hostile.kafka import CREATE_TOPICS, NONE, ClosedError, Connection, header, i16, i32, string
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import SERVES, OttlaBrokers

WRITES = "pwrite64,pwritev,pwritev2"
CALLS = [WRITES, "fsync", "rename", "ftruncate", "unlink", "mkdir", "write,writev,sendto,sendmsg"]
"""The last are answers: what they would tell is in the log already."""
N_MAX = 200
BATCHES = 14
SETTINGS = {
    "log.segment.bytes": "60000",
    "log.index.interval.bytes": "100",
    "log.flush.interval.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "zookeeper.session.timeout.ms": "10000",  # longer than a broker that is traced stands still
}


class Life:
    """One broker with a fresh directory, whose first life ends early."""

    def __init__(self, folder: Path, keepers: OttlaKeepers, name: str, mistake: str | None = None) -> None:
        self.brokers = sabotaged(OttlaBrokers(1, f"{keepers.hosts}/{name}", folder, settings=SETTINGS), mistake)
        self.process = self.brokers.brokers[0]
        self.process.env["PYTHONDONTWRITEBYTECODE"] = "1"  # or the first files it writes are Python's
        self.acked: list[bytes] = []
        self.sent: list[bytes] = []

    def first(self) -> bool:
        """Whether the broker came through."""
        process = self.process
        process.start()
        wait_until(
            lambda: not process.running or SERVES in process.tail(1 << 20), timeout_s=60, what="it serves or dies"
        )
        with suppress(ClosedError, OSError):
            self.create()
            self.write()
        process.signal(signal.SIGTERM)
        return process.wait(120) == 0

    def create(self) -> None:
        topic = string(TOPIC) + i32(1) + i16(1) + i32(0) + i32(0)
        with Connection(self.brokers.ports[0]) as connection:
            connection.call(header(CREATE_TOPICS, 2) + i32(1) + topic + i32(20_000) + b"\0")

    def write(self) -> None:
        with Connection(self.brokers.ports[0]) as connection:
            for _ in range(BATCHES):
                self.sent.append(b"%d " % len(self.sent) + bytes(10_000))
                assert connection.produce(TOPIC, self.numbered(len(self.sent) - 1)) == NONE
                self.acked.append(self.sent[-1])

    def numbered(self, sequence: int) -> bytes:
        now_ms = int(time.time() * 1000)
        return build_batch(
            [Record(None, self.sent[sequence], now_ms)], producer_id=7, producer_epoch=0, base_sequence=sequence
        )

    def check(self) -> None:
        """The second life."""
        self.brokers.start(0)
        tail = self.process.tail(1 << 20)
        assert "stays closed" not in tail, tail
        assert "Traceback" not in tail, tail
        self.create()
        found = [text.encode() for _, text in read_all(self.brokers.bootstrap, 0)]
        assert found[: len(self.acked)] == self.acked
        assert found == self.sent[: len(found)]
        # It goes on from there, and remembers whom it heard last: what is sent again is not appended again.
        del self.sent[len(found) :]
        self.acked[:] = found
        with Connection(self.brokers.ports[0]) as connection:
            for sequence in range(len(found))[-1:]:
                assert connection.produce(TOPIC, self.numbered(sequence)) == NONE
        self.write()
        assert [text.encode() for _, text in read_all(self.brokers.bootstrap, 0)] == self.acked


def crashed_at(
    folder: Path, keepers: OttlaKeepers, call: str, n: int, *, file: str | None = None, mistake: str | None = None
) -> bool:
    """Whether the broker died at its ``n``-th ``call``, or the ``n``-th on a file."""
    name = f"{call.partition(',')[0]}-{n}"
    life = Life(folder / name, keepers, name, mistake)
    try:
        (folder / name).mkdir(exist_ok=True)
        paths = [] if file is None else [life.brokers.data() / file]
        with strace(life.process, folder / name / "strace", call, f"signal=KILL:when={n}", paths):
            through = life.first()
        life.check()
    finally:
        life.process.kill()
    return not through


SEGMENT = f"{TOPIC}-0/{0:020d}.log"


@pytest.mark.parametrize(("call", "n", "file"), [(WRITES, 4, SEGMENT), ("rename", 8, None)])
def test_a_crash(tmp_path: Path, call: str, n: int, file: str | None) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        assert crashed_at(tmp_path, keepers, call, n, file=file)


@pytest.mark.long
def test_a_broker_with_a_mistake_is_found_out(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path / "keeper") as keepers,
        pytest.raises(AssertionError, match="assert"),
    ):
        crashed_at(tmp_path, keepers, WRITES, 4, file=SEGMENT, mistake="forget_producers")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("call", CALLS)
def test_a_crash_at_every_call(tmp_path: Path, call: str) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        n = 1
        while crashed_at(tmp_path, keepers, call, n):
            n += 1
            assert n < N_MAX, "it never came through"
        print(f"{call}: {n - 1} crashes")
        assert n > 1, "it was never called"
