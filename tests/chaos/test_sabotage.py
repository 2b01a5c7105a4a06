"""Broken builds: each with one mistake, and the witness finds the guarantee broken that the mistake breaks.

Nothing here checks the product; the same ordeals leave a sound one sound, as the other tests of this folder show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.client import Client, Request, create, exists, get, set_, sync
from tests.chaos.disks import power_disks
from tests.chaos.history import Fields, History
from tests.chaos.keepers import Islands, Sabotaged
from tests.chaos.load import Load
from tests.chaos.namespaces import Network
from tests.chaos.trial import SMALL_TICKS, addresses, data_of, judge
from tests.peers import OttlaKeepers, wait_until

PATIENT = {**SMALL_TICKS, "syncLimit": "50"}
"""Leader and followers bear each other's silence for ten seconds."""


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.jsonl")
    history.happened("test", "note", "clock", {"wall_ms": time.time_ns() / 1e6})
    yield history
    history.close()


def broken(history: History, folder: Path, data: list[Path]) -> set[str]:
    """The guarantees that the witness finds broken."""
    return {finding[:2] for finding in judge(history, folder, data)}


def test_no_sync_before_the_acknowledgement(tmp_path: Path, history: History) -> None:
    keepers = Sabotaged(tmp_path, settings=PATIENT, mistake="never_sync")
    with power_disks(keepers) as disks:
        with keepers, Load(addresses(keepers), history) as load:
            load.wait_acked(20)
        for disk in disks:
            disk.cut()
        assert "Z2" in broken(history, tmp_path, [disk.path for disk in disks])


def test_a_leader_that_commits_alone(tmp_path: Path, history: History) -> None:
    with Sabotaged(tmp_path, settings=PATIENT, mistake="commit_alone") as keepers:
        leader = keepers.leader()
        followers = keepers.followers()
        with Load(addresses(keepers), history, silence_s=0.5) as load:
            load.wait_acked(20)
            for follower in followers:
                keepers.pause(follower)
            load.wait_acked(5)
        keepers.stop()
        for follower in followers:
            keepers.servers[follower].start()
        keepers.wait_ready()
        keepers.restart(leader)
        keepers.stop()
        assert "Z2" in broken(history, tmp_path, data_of(keepers))


@pytest.mark.long
def test_requests_in_the_wrong_order(tmp_path: Path, history: History) -> None:
    with Sabotaged(tmp_path, settings=PATIENT, mistake="answer_backwards") as keepers:
        client = Client("client", addresses(keepers), history)
        call(client, create("/r"))
        client.call(*(set_("/r", str(number)) for number in range(10)))
        client.end()
        keepers.stop()
        assert "Z5" in broken(history, tmp_path, data_of(keepers))


@pytest.mark.long
def test_events_behind_what_they_announce(tmp_path: Path, history: History) -> None:
    with Sabotaged(tmp_path, settings=PATIENT, mistake="tell_late") as keepers:
        with Load(addresses(keepers), history) as load:
            load.wait_acked(40)
        keepers.stop()
        assert "Z8" in broken(history, tmp_path, data_of(keepers))


@pytest.mark.long
def test_sessions_that_end_too_early(tmp_path: Path, history: History) -> None:
    with Sabotaged(tmp_path, settings=PATIENT, mistake="expire_early") as keepers:
        silent, watcher = (Client(name, addresses(keepers), history) for name in ("silent", "watcher"))
        silent.timeout_ms = 3000
        call(silent, create("/e", flags=1))
        silent.disconnect()
        wait_until(lambda: call(watcher, exists("/e"))["err"], timeout_s=120, what="the session has ended")
        watcher.end()
        keepers.stop()
        assert "Z9" in broken(history, tmp_path, data_of(keepers))


@pytest.mark.long
def test_a_server_that_takes_clients_from_the_future(tmp_path: Path, history: History) -> None:
    with lagging(tmp_path, history, "attach_alone") as (keepers, writer, reader):
        writer.move_to(reader.servers)
        call(writer, get("/r"))
    assert "Z6" in broken(history, tmp_path, data_of(keepers))


@pytest.mark.long
def test_a_server_that_syncs_with_itself(tmp_path: Path, history: History) -> None:
    with lagging(tmp_path, history, "sync_alone") as (keepers, _, reader):
        reader.call(sync(), get("/r"))
    assert "Z7" in broken(history, tmp_path, data_of(keepers))


@contextmanager
def lagging(folder: Path, history: History, mistake: str) -> Iterator[tuple[OttlaKeepers, Client, Client]]:
    """A follower that has missed a write, a client at the leader that has made it, and one at the follower."""
    network = Network(3)
    try:
        with Islands(network, folder, settings=PATIENT, mistake=mistake) as keepers:
            leader = keepers.leader()
            follower = keepers.others(leader)[0]
            writer, reader = (
                Client(f"at{index}", [keepers.addresses[index]], history, open_socket=network.open_socket)
                for index in (leader, follower)
            )
            call(writer, create("/r"))
            call(reader, sync())
            network.cut(leader, follower)
            call(writer, set_("/r", "new"))
            yield keepers, writer, reader
            for client in (writer, reader):
                client.disconnect()
            network.heal()
            keepers.wait_ready()
    finally:
        network.close()


def call(client: Client, request: Request) -> Fields:
    assert client.connect(deadline=time.monotonic() + 120)
    return client.call(request)[0]
