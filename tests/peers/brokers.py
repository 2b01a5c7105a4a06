"""Our brokers as processes, on an ensemble of keepers or of ZooKeeper servers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.peers.processes import Process, free_ports, wait_until

SERVES = "serves clients on"


class OttlaBrokers:
    """``count`` brokers, with the ids 1, 2, ..."""

    def __init__(
        self,
        count: int,
        connect: str,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        racks: Sequence[str] = (),
    ) -> None:
        self.ports = free_ports(count)
        self.racks = racks
        self.folders = [directory / f"ottla-broker-{number}" for number in range(1, count + 1)]
        self.brokers = [self._make(number, connect, settings or {}) for number in range(count)]

    def _make(self, index: int, connect: str, more: Mapping[str, str]) -> Process:
        folder = self.folders[index]
        folder.mkdir(parents=True)
        settings = {
            "broker.id": str(index + 1),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[index]}",
            "zookeeper.connect": connect,
            "log.dirs": str(folder / "data"),
            **({"broker.rack": self.racks[index]} if self.racks else {}),
            "offsets.topic.replication.factor": str(min(len(self.ports), 3)),
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            **more,
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return Process([sys.executable, "-P", "-m", "ottla", "broker", str(config)], log=folder / "log", cwd=folder)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def data(self, index: int = 0) -> Path:
        return self.folders[index] / "data"

    def start(self, index: int) -> None:
        process = self.brokers[index]
        told = process.tail(1 << 20).count(SERVES) if (self.folders[index] / "log").exists() else 0
        process.start()

        def serving() -> bool:
            if not process.running:
                raise RuntimeError(f"broker {index + 1} ended with {process.returncode}:\n{process.tail()}")
            return process.tail(1 << 20).count(SERVES) > told

        wait_until(serving, timeout_s=60, what=f"broker {index + 1} serves")

    def kill(self, index: int) -> None:
        self.brokers[index].kill()

    def __enter__(self) -> Self:
        try:
            for index in range(len(self.brokers)):
                self.start(index)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers:
            broker.kill()
