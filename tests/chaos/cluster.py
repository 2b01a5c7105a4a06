"""Three brokers and three keepers, each on a computer of its own, and what can be done to them.

The brokers are ours or Apache Kafka's, the keepers ours or Apache ZooKeeper's servers. Clients are on the hub of the network: a thread that is made in there stays there.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla.log.checkpoints import read_offsets
from ottla.records import frames
from tests.chaos.disks import PAGE
from tests.chaos.keepers import Islands, OnIslands, ZooKeeperIslands
from tests.chaos.namespaces import Holder, Network, inside_network, ip
from tests.chaos.records import TOPIC
from tests.chaos.trial import SMALL_TICKS
from tests.peers import wait_until
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import KafkaBrokers
from tests.peers.maven import CHECKOUT
from tests.peers.processes import Process

BROKERS = 3
SESSION_MS = 4000
SETTINGS = {
    "log.segment.bytes": "200000",
    "log.index.interval.bytes": "2000",
    "min.insync.replicas": "2",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "replica.lag.time.max.ms": "3000",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "true",
}
HEALED_S = 300


class ClusterOnIslands:
    """See the module. Keepers are on the computers 0 to 2, brokers on 3 to 5; brokers are counted from 0."""

    def __init__(
        self,
        folder: Path,
        *,
        disk_bytes: int,
        is_kafka: bool = False,
        on_zookeeper: bool = False,
        mistake: str | None = None,
    ) -> None:
        self.network = Network(2 * BROKERS)
        kept: type[Islands | ZooKeeperIslands] = ZooKeeperIslands if on_zookeeper else Islands
        self.keepers: OnIslands = kept(self.network, folder / "keepers", settings=SMALL_TICKS)
        connect = ",".join(f"{host}:{port}" for host, port in self.keepers.addresses)
        self.is_kafka = is_kafka
        kind = KafkaBrokers if is_kafka else OttlaBrokers
        self.brokers = kind(BROKERS, connect, folder / "brokers", settings=SETTINGS)
        self.disk = Holder("--mount")
        """Of the last broker: a small one."""
        for index, process in enumerate(self.processes):
            self._move(index, process, mistake)
        data = self.folder(BROKERS - 1) / "data"
        data.mkdir()
        self.disk.run("mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "tmpfs", data)

    def _move(self, index: int, process: Process, mistake: str | None) -> None:
        """A broker onto its computer."""
        config = self.folder(index) / "server.properties"
        lines = config.read_text().splitlines(keepends=True)
        config.write_text("".join(self._relocated(index, line) for line in lines))
        if mistake is not None:
            process.command = [sys.executable, "-m", "tests.chaos.sabotage", mistake, *process.command[-2:]]
            process.env["PYTHONPATH"] = str(CHECKOUT)
        enter = self.network.computers[BROKERS + index].enter
        if index == BROKERS - 1:
            enter = [*enter, *self.disk.enter]
        process.command = [*enter, *process.command, *([] if self.is_kafka else ["--insecure"])]

    def _relocated(self, index: int, line: str) -> str:
        return line.replace("127.0.0.1", ip(BROKERS + index)) if line.startswith("listeners=") else line

    @property
    def processes(self) -> list[Process]:
        return self.brokers.brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{ip(BROKERS + index)}:{port}" for index, port in enumerate(self.brokers.ports))

    def folder(self, index: int) -> Path:
        return self.processes[index].log.parent

    def data(self, index: int) -> Path:
        data = self.folder(index) / "data"
        return self.disk.path(data) if index == BROKERS - 1 else data

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            with self.keepers:
                for index in range(BROKERS):
                    self.start(index)
                yield
        finally:
            for process in self.processes:
                process.kill()
            self.disk.close()
            self.network.close()

    def start(self, index: int) -> None:
        if self.is_kafka:
            assert isinstance(self.brokers, KafkaBrokers)
            log = self.processes[index].log
            times = log.read_text(errors="replace").count("started (kafka.server") if log.exists() else 0
            self.processes[index].start()
            self.brokers.wait_started(index, times=times + 1)
        else:
            assert isinstance(self.brokers, OttlaBrokers)
            self.brokers.start(index)

    @contextmanager
    def on_the_hub(self) -> Iterator[None]:
        with inside_network(self.network.hub):
            yield

    # What can be done to a broker.

    def terminate(self, index: int) -> None:
        """With its consent: it hands over what it leads, and must come to an end."""
        process = self.processes[index]
        process.signal(signal.SIGTERM)
        process.wait(60)

    def cut_power(self, index: int, draw: Random) -> None:
        """What it had not on disk goes, or a part of it: of each log, everything behind some byte."""
        self.processes[index].kill()
        data = self.data(index)
        points = read_offsets(data / "recovery-point-offset-checkpoint")
        synced = {str(where): offset for where, offset in points.items()}
        for folder in sorted(data.glob(f"{TOPIC}-*")):
            _lose_end(folder, synced.get(folder.name, 0), draw)

    def fill_disk(self) -> None:
        """Of the last broker."""
        with (self.data(BROKERS - 1) / "filler").open("ab", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(16 * PAGE)):
                pass

    def clear_disk(self) -> None:
        (self.data(BROKERS - 1) / "filler").unlink(missing_ok=True)

    @contextmanager
    def slow_disk(self, index: int, delay_ms: int) -> Iterator[None]:
        """Every write and sync of a broker takes that much longer."""
        calls = "pwrite64,pwritev,pwritev2,write,fsync,fdatasync,ftruncate"
        strace = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}",
             "-e", f"inject=fsync,fdatasync,pwrite64,pwritev,pwritev2,ftruncate:delay_enter={delay_ms * 1000}",
             "-p", str(self.processes[index].pid)],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield
        finally:
            strace.send_signal(signal.SIGINT)
            strace.wait(30)

    # What it comes to.

    def wait_in_sync(self, *, timeout_s: float = HEALED_S) -> None:
        """Until every broker knows every replica to be in sync (A3, C5)."""
        with self.on_the_hub():
            admins = [
                AdminClient({"bootstrap.servers": address, "log_level": 0}) for address in self.bootstrap.split(",")
            ]

        def in_sync() -> bool:
            told = [_known(admin) for admin in admins]
            first = told[0]
            return (
                bool(first)
                and all(each == first for each in told)
                and all(len(i) == BROKERS for _, i in first.values())
            )

        wait_until(in_sync, timeout_s=timeout_s, what="every broker knows all replicas to be in sync", interval_s=0.2)

    def logs(self, partition: int) -> list[bytes]:
        """What each broker has of a partition."""
        folders = [self.data(index) / f"{TOPIC}-{partition}" for index in range(BROKERS)]
        return [b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders]


def _known(admin: AdminClient) -> Mapping[int, tuple[int, tuple[int, ...]]]:
    """What a broker knows of each partition; nothing, where it does not say."""
    try:
        partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    except KafkaException:
        return {}
    return {number: (each.leader, tuple(sorted(each.isrs))) for number, each in partitions.items()}


def _lose_end(folder: Path, synced: int, draw: Random) -> None:
    """Cut a log at some byte that is not on disk for sure; segments behind that are gone."""
    segments = sorted(folder.glob("*.log"))
    at_risk: list[tuple[Path, int, int]] = []
    for path in segments:
        content = path.read_bytes()
        start = len(content)
        for frame in frames(content):
            if int.from_bytes(content[frame.position : frame.position + 8], "big") >= synced:
                start = min(start, frame.position)
        if start < len(content):
            at_risk.append((path, start, len(content)))
    if not at_risk:
        return
    chosen = draw.randrange(len(at_risk))
    path, start, end = at_risk[chosen]
    with path.open("r+b") as file:
        file.truncate(draw.randint(start, end))
    for later, _, _ in at_risk[chosen + 1 :]:
        for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
            later.with_suffix(suffix).unlink(missing_ok=True)
