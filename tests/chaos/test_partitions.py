"""Networks that lose messages, all or in one direction only: a minority never acknowledges, a majority goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from ottla.keeper.links import CONNECT_TIMEOUT_S
from tests.chaos.client import Client, get, set_, sync
from tests.chaos.history import History, operations
from tests.chaos.keepers import Islands
from tests.chaos.load import REGISTERS, Load
from tests.chaos.namespaces import Network
from tests.chaos.trial import INIT_S, SMALL_TICKS, SYNC_S, trial
from tests.chaos.witness import WRITES

BACK_S = SYNC_S + CONNECT_TIMEOUT_S + 30
"""How soon the majority writes again: the time to give a leader up, a call to a candidate that does not hear, and what
an election takes on a busy machine."""


@contextmanager
def islands(folder: Path, **more: str) -> Iterator[tuple[Islands, Load]]:
    network = Network(3)
    try:
        keepers = Islands(network, folder, settings={**SMALL_TICKS, **more})
        with trial(keepers, folder, servers=keepers.addresses, open_socket=network.open_socket, silence_s=1.0) as (
            _,
            load,
        ):
            yield keepers, load
            network.heal()
    finally:
        network.close()


def lone_leader(keepers: Islands, leader: int) -> list[int]:
    keepers.network.split([leader], keepers.others(leader))
    return [leader]


def lone_follower(keepers: Islands, leader: int) -> list[int]:
    follower = keepers.others(leader)[0]
    keepers.network.split([follower], keepers.others(follower))
    return [follower]


def mute_leader(keepers: Islands, leader: int) -> list[int]:
    """It hears the others, and they do not hear it."""
    keepers.network.cut(leader, *keepers.others(leader))
    return [leader]


def deaf_leader(keepers: Islands, leader: int) -> list[int]:
    """Its proposals arrive, and no acknowledgement comes back."""
    for follower in keepers.others(leader):
        keepers.network.cut(follower, leader)
    return [leader]


def bridge(keepers: Islands, leader: int) -> list[int]:
    """Two of three do not see each other, and the third sees both: there is always a majority."""
    keepers.network.split([leader], [keepers.others(leader)[0]])
    return []


Fault = Callable[[Islands, int], list[int]]
FAULTS: list[Fault] = [lone_leader, lone_follower, mute_leader, deaf_leader, bridge]


def test_a_leader_is_cut_off(tmp_path: Path) -> None:
    partition(tmp_path, [lone_leader])


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_partitions(tmp_path: Path, fault: Fault) -> None:
    partition(tmp_path, [fault] * 5)


@pytest.mark.long
def test_one_partition_after_the_other(tmp_path: Path) -> None:
    partition(tmp_path, FAULTS * 3, settle=False)


def partition(tmp_path: Path, faults: list[Fault], *, settle: bool = True) -> None:
    with islands(tmp_path) as (keepers, load):
        for fault in faults:
            load.wait_acked(20)
            minority = fault(keepers, keepers.leader())
            since_ns = time.monotonic_ns()
            # A server that is caught while it joins waits out initLimit before it looks elsewhere.
            load.wait_acked(1, timeout_s=BACK_S if settle else BACK_S + INIT_S)
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


def test_a_sync_waits_for_the_leader(tmp_path: Path) -> None:
    """A follower that hears nothing from its leader cannot answer one, and does so as soon as it hears again."""
    with islands(tmp_path, syncLimit="150") as (keepers, load):  # it hears again before it gives the leader up
        leader = keepers.leader()
        follower = keepers.others(leader)[0]
        writer, reader = (
            Client(
                f"at{index}",
                [keepers.addresses[index]],
                load.history,
                silence_s=60,
                open_socket=keepers.network.open_socket,
            )
            for index in (leader, follower)
        )
        for client in (writer, reader):
            assert client.connect(deadline=time.monotonic() + 120)
        keepers.network.cut(leader, follower)
        writer.call(set_(REGISTERS[0], "while the follower is cut off"))
        healed: list[float] = []

        def heal() -> None:
            healed.append(time.monotonic())
            keepers.network.heal()

        healing = Timer(SYNC_S / 2, heal)
        healing.start()
        reader.call(sync(), get(REGISTERS[0]))
        answered = time.monotonic()
        assert healed, "it was answered while nothing could be heard"
        assert answered > healed[0]
        healing.join()
        for client in (writer, reader):
            client.end()
