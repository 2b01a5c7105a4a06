"""Networks that lose messages, all or in one direction only: a minority never acknowledges, a majority goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.history import History, operations
from tests.chaos.load import Load
from tests.chaos.namespaces import Network, inside_network, ip
from tests.chaos.trial import SMALL_TICKS, SYNC_S, trial
from tests.chaos.witness import WRITES
from tests.peers import OttlaKeepers
from tests.peers.words import mode

BACK_S = SYNC_S + 3
"""How soon the majority writes again: the time to give a leader up, and what an election takes on a busy machine."""


class Islands(OttlaKeepers):
    """Keepers on computers of their own."""

    def __init__(self, network: Network, folder: Path) -> None:
        super().__init__(len(network.computers), folder, settings=SMALL_TICKS)
        self.network = network
        for index, server in enumerate(self.servers):
            server.command = [*network.computers[index].enter, *server.command, "--insecure"]
            config = self.folder(index) / "zoo.cfg"
            config.write_text("".join(_relocated(line) for line in config.read_text().splitlines(keepends=True)))

    def wait_serving(self, index: int, *, timeout_s: float = 60) -> str:
        with inside_network(self.network.computers[index]):
            return super().wait_serving(index, timeout_s=timeout_s)

    def modes(self) -> list[str | None]:
        return [self._mode(index) for index in range(len(self.servers))]

    def _mode(self, index: int) -> str | None:
        with inside_network(self.network.computers[index]):
            return mode(self.client_ports[index])


def _relocated(line: str) -> str:
    """A line of ``zoo.cfg`` with the address that a server has on the network."""
    key, _, value = line.partition("=")
    if key == "clientPortAddress":
        return f"{key}=0.0.0.0\n"
    if key.startswith("server."):
        return f"{key}={value.replace('127.0.0.1', ip(int(key.removeprefix('server.')) - 1))}"
    return line


@contextmanager
def islands(count: int, folder: Path) -> Iterator[tuple[Islands, Load]]:
    network = Network(count)
    try:
        keepers = Islands(network, folder)
        servers = [(ip(index), port) for index, port in enumerate(keepers.client_ports)]
        with trial(keepers, folder, servers=servers, open_socket=network.open_socket, silence_s=1.0) as (_, load):
            yield keepers, load
            network.heal()
    finally:
        network.close()


def lone_leader(keepers: Islands, leader: int) -> list[int]:
    keepers.network.split([leader], others(keepers, leader))
    return [leader]


def lone_follower(keepers: Islands, leader: int) -> list[int]:
    follower = others(keepers, leader)[0]
    keepers.network.split([follower], others(keepers, follower))
    return [follower]


def mute_leader(keepers: Islands, leader: int) -> list[int]:
    """It hears the others, and they do not hear it."""
    keepers.network.cut(leader, *others(keepers, leader))
    return [leader]


def deaf_leader(keepers: Islands, leader: int) -> list[int]:
    """Its proposals arrive, and no acknowledgement comes back."""
    for follower in others(keepers, leader):
        keepers.network.cut(follower, leader)
    return [leader]


def bridge(keepers: Islands, leader: int) -> list[int]:
    """Two of three do not see each other, and the third sees both: there is always a majority."""
    first, _ = others(keepers, leader)
    keepers.network.split([leader], [first])
    return []


def others(keepers: Islands, index: int) -> list[int]:
    return [other for other in range(len(keepers.servers)) if other != index]


Fault = Callable[[Islands, int], list[int]]
FAULTS: list[Fault] = [lone_leader, lone_follower, mute_leader, deaf_leader, bridge]


def test_a_leader_is_cut_off(tmp_path: Path) -> None:
    partition(tmp_path, [lone_leader])


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
def test_partitions(tmp_path: Path, fault: Fault) -> None:
    partition(tmp_path, [fault] * 5)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_partitions_of_every_kind_one_after_the_other(tmp_path: Path) -> None:
    partition(tmp_path, FAULTS * 3, settle=False)


def partition(tmp_path: Path, faults: list[Fault], *, settle: bool = True) -> None:
    with islands(3, tmp_path) as (keepers, load):
        for fault in faults:
            load.wait_acked(20)
            minority = fault(keepers, keepers.leader())
            since_ns = time.monotonic_ns()
            load.wait_acked(1, timeout_s=BACK_S)
            load.wait_acked(20)
            assert not acknowledged(load.history, minority, since_ns)
            keepers.network.heal()
            if settle:
                keepers.wait_ready()


def acknowledged(history: History, servers: list[int], since_ns: int) -> list[str]:
    """Writes that were sent to ``servers`` after ``since_ns`` and answered without an error."""
    ops = operations(list(history.events))
    return [
        str(op) for op in ops
        if op.f in WRITES and op.phase == "ok" and op.server in servers and op.invoked_ns > since_ns
    ]  # fmt: skip
