"""Our servers, as faults need them: with a mistake in them, or each on a computer of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.client import Address
from tests.chaos.namespaces import Network, inside_network, ip
from tests.peers import Ensemble, OttlaKeepers, RealZooKeeper
from tests.peers.maven import CHECKOUT
from tests.peers.words import mode


class Sabotaged(OttlaKeepers):
    """Three servers with one mistake in each (see ``sabotage``), or none."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str], mistake: str | None = None) -> None:
        self._mistake = mistake
        super().__init__(3, folder, settings=settings)

    def _environment(self) -> dict[str, str]:
        environment = super()._environment()
        return {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{CHECKOUT}"}

    def _command(self, index: int, config: Path) -> list[str]:
        command = super()._command(index, config)
        if self._mistake is None:
            return command
        return [sys.executable, "-m", "tests.chaos.sabotage", self._mistake, *command[command.index("keeper") :]]


class OnIslands(Ensemble):
    """Servers that are moved, each to a computer of its own; ``more`` is what their commands take for that."""

    network: Network

    def move(self, network: Network, *more: str) -> None:
        self.network = network
        for index, server in enumerate(self.servers):
            server.command = [*network.computers[index].enter, *server.command, *more]
            config = self.folder(index) / "zoo.cfg"
            config.write_text("".join(_relocated(line) for line in config.read_text().splitlines(keepends=True)))

    @property
    def addresses(self) -> list[Address]:
        return [(ip(index), port) for index, port in enumerate(self.client_ports)]

    def others(self, index: int) -> list[int]:
        return [other for other in range(len(self.servers)) if other != index]

    def wait_serving(self, index: int, *, timeout_s: float = 60) -> str:
        with inside_network(self.network.computers[index]):
            return super().wait_serving(index, timeout_s=timeout_s)

    def modes(self) -> list[str | None]:
        return [self._mode(index) for index in range(len(self.servers))]

    def _mode(self, index: int) -> str | None:
        with inside_network(self.network.computers[index]):
            return mode(self.client_ports[index])


class Islands(OnIslands, Sabotaged):
    """Three servers of ours, each on a computer of its own."""

    def __init__(
        self, network: Network, folder: Path, *, settings: Mapping[str, str], mistake: str | None = None
    ) -> None:
        super().__init__(folder, settings=settings, mistake=mistake)
        self.move(network, "--insecure")


class ZooKeeperIslands(OnIslands, RealZooKeeper):
    """Three servers of Apache ZooKeeper, likewise."""

    def __init__(self, network: Network, folder: Path, *, settings: Mapping[str, str]) -> None:
        super().__init__(3, folder, settings=settings)
        self.move(network)


def _relocated(line: str) -> str:
    """A line of ``zoo.cfg`` with the addresses of the network."""
    key, _, value = line.partition("=")
    if key == "clientPortAddress":
        return f"{key}=0.0.0.0\n"
    if key.startswith("server."):
        return f"{key}={value.replace('127.0.0.1', ip(int(key.removeprefix('server.')) - 1))}"
    return line
