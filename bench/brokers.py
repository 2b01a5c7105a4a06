"""The brokers that are measured beside each other, each as its makers start it: one node, ready for load, alone on the machine."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.cli.plan import Role
from ottla.cli.serving import condition
from ottla.keeper.peers import Address
from tests.peers import RealZooKeeper, maven
from tests.peers.processes import Process, free_ports, wait_until

HEAP = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")
"""Kafka's own start script has the same."""
TICKS = os.sysconf("SC_CLK_TCK")


class Contestant:
    """One broker. ``broker`` is the process that counts; what else it needs runs beside it."""

    name = ""
    broker_id = 1

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, self.other_port = free_ports(2)
        self.data = home / "data"
        self.ready_s = 0.0
        self.broker = self.make()

    def make(self) -> Process:
        raise NotImplementedError

    def prepare(self) -> None:
        """What is started or written before the clock runs."""

    def cleanup(self) -> None:
        """What ``prepare`` started ends."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker; ``ready_s`` is the time to its first answer."""
        started = time.perf_counter()
        self.broker.start()
        role = Role("broker", self.broker_id, Address("127.0.0.1", self.port))
        wait_until(lambda: self._serves(role), timeout_s=120, what=f"{self.name} serves", interval_s=0.005)
        self.ready_s = time.perf_counter() - started

    def _serves(self, role: Role) -> bool:
        if not self.broker.running:
            raise RuntimeError(f"{self.name} ended:\n{self.broker.tail(40)}")
        return condition(role) is not None

    def resident_mb(self) -> float:
        return self.broker.resident_bytes() / 1e6

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.broker.stop(30)
        self.cleanup()


class Ottla(Contestant):
    name = "Ottla"

    def make(self) -> Process:
        settings = self.home / "server.properties"
        settings.write_text(
            f"broker.id={self.broker_id}\nlisteners=PLAINTEXT://127.0.0.1:{self.port}\nlog.dirs={self.data}\n"
            f"zookeeper.connect=127.0.0.1:{self.other_port}\noffsets.topic.replication.factor=1\n"
        )
        keeper = self.home / "zoo.cfg"
        keeper.write_text(
            f"dataDir={self.home}/keeper\nclientPort={self.other_port}\nclientPortAddress=127.0.0.1\ntickTime=2000\n"
        )
        command = [sys.executable, "-P", "-m", "ottla", "broker", settings, "--keeper", keeper]
        return Process(command, log=self.home / "log", cwd=self.home)


class Kafka39(Contestant):
    name = "Kafka 3.9.1"

    def make(self) -> Process:
        self._zookeeper = RealZooKeeper(1, self.home / "zookeeper")
        settings = self.home / "server.properties"
        settings.write_text(
            f"broker.id={self.broker_id}\nlisteners=PLAINTEXT://127.0.0.1:{self.port}\nlog.dirs={self.data}\n"
            f"zookeeper.connect={self._zookeeper.hosts}\noffsets.topic.replication.factor=1\n"
        )
        command = ["java", *HEAP, "-cp", maven.class_path("kafka-3.9.1"), "kafka.Kafka", settings]
        return Process(command, log=self.home / "log", cwd=self.home)

    def prepare(self) -> None:
        self._zookeeper.start()

    def cleanup(self) -> None:
        self._zookeeper.stop()


class Kafka43(Contestant):
    name = "Kafka 4.3.1"

    def make(self) -> Process:
        self._settings = self.home / "server.properties"
        self._settings.write_text(
            f"process.roles=broker,controller\nnode.id={self.broker_id}\n"
            f"controller.quorum.voters={self.broker_id}@127.0.0.1:{self.other_port}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.other_port}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={self.data}\noffsets.topic.replication.factor=1\n"
        )
        command = ["java", *HEAP, "-cp", maven.class_path("kafka-4.3.1"), "kafka.Kafka", self._settings]
        return Process(command, log=self.home / "log", cwd=self.home)

    def prepare(self) -> None:
        if not self.data.exists():
            cluster_id = base64.urlsafe_b64encode(os.urandom(16))[:22].decode().replace("-", "x")
            tool = ["java", "-cp", maven.class_path("kafka-4.3.1"), "kafka.tools.StorageTool", "format"]
            command = [*tool, "-t", cluster_id, "-c", os.fspath(self._settings)]
            subprocess.run(command, check=True, capture_output=True, cwd=self.home)


CONTESTANTS: tuple[type[Contestant], ...] = (Kafka39, Kafka43, Ottla)


def cpu_s(pid: int) -> float:
    """Processor time of a process, of those it has now, and of those it had and waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    total = sum(map(int, fields[11:15])) / TICKS
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            total += cpu_s(int(child))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total
