"""Apache Kafka 3.9.1 brokers, in ZooKeeper mode.

A broker says that it has started before its controller has told it of the cluster, and answers Metadata without a controller
until then. librdkafka asks once: a client that came too early would wait for a controller until it gives up. So a broker is up
once its metadata names one.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla import wire
from ottla.wire import ApiKey
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from tests.peers import maven
from tests.peers.processes import Process, free_ports, wait_until

LIBRARIES = "kafka-3.9.1"
STARTED = "started (kafka.server.KafkaServer)"

JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx400m")

SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "30000",
    "num.partitions": "1",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.replica.fetchers": "1",
    "background.threads": "2",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "4000",
    "controlled.shutdown.enable": "false",
    "log.cleaner.enable": "false",
}


class KafkaBrokers:
    """``count`` brokers, with the ids 0, 1, ..."""

    def __init__(
        self,
        count: int,
        connect: str,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        java: Sequence[str] = JAVA,
    ) -> None:
        self._java = java
        self.settings = {**SETTINGS, **(settings or {})}
        self.ports = free_ports(count)
        self.brokers = [self._make(number, port, connect, directory) for number, port in enumerate(self.ports)]

    def _make(self, number: int, port: int, connect: str, directory: Path) -> Process:
        folder = directory / f"broker-{number}"
        folder.mkdir(parents=True)
        replicas = str(min(len(self.ports), 3))
        settings = {
            **self.settings,
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "zookeeper.connect": connect,
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        # slf4j-simple and reload4j are both in the set; whichever binds, the log must say INFO.
        log4j = folder / "log4j.properties"
        log4j.write_text(
            "log4j.rootLogger=INFO, stdout\n"
            "log4j.appender.stdout=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.stdout.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        )
        command = [
            *self._java,
            f"-Dlog4j.configuration=file:{log4j}",
            f"-Dkafka.logs.dir={folder}",
            "-cp",
            maven.class_path(LIBRARIES),
            "kafka.Kafka",
            str(config),
        ]
        return Process(command, log=folder / "log", cwd=folder)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, *, timeout_s: float = 90) -> None:
        for broker in self.brokers:
            broker.start()
        for number in range(len(self.brokers)):
            self.wait_started(number, times=1, timeout_s=timeout_s)

    def wait_started(self, number: int, *, times: int, timeout_s: float = 90) -> None:
        """Until a broker has said ``times`` times that it has started, and knows of a controller."""
        broker = self.brokers[number]

        def started() -> bool:
            if not broker.running:
                raise RuntimeError(f"broker {number} ended with {broker.returncode}:\n{broker.tail(60)}")
            told = broker.log.read_text(errors="replace").count(STARTED) >= times
            return told and controller_id(self.ports[number]) >= 0

        try:
            wait_until(started, timeout_s=timeout_s, what=f"broker {number} is up", interval_s=0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{broker.tail(60)}") from None

    def kill(self, number: int) -> None:
        self.brokers[number].kill()

    def restart(self, number: int) -> None:
        times = self.brokers[number].log.read_text(errors="replace").count(STARTED) + 1
        self.brokers[number].start()
        self.wait_started(number, times=times)

    def stop(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def controller_id(port: int) -> int:
    """The controller that a broker tells its clients of, or -1."""
    version = 1
    request = struct.pack(">hhih", ApiKey.METADATA, version, 0, -1) + wire.encode(MetadataRequest(topics=[]), version)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, connection.makefile("rwb") as stream:
        stream.write(struct.pack(">i", len(request)) + request)
        stream.flush()
        (size,) = struct.unpack(">i", stream.read(4))
        answer = stream.read(size)
    return wire.decode(MetadataResponse, version, answer, struct.calcsize(">i")).controller_id
