"""A crash at the n-th write, sync or rename of a server that joins, for every n, and for every way to join.

The victim is prepared once: it lacks a little of what the others have (DIFF), lacks so much that it gets a snapshot
(SNAP), or has what nobody ever agreed on (TRUNC). Its directory is put back before each start, the start ends at one
system call, and the next start must lead to the same tree as everywhere. A sweep ends at the first n that the victim
lives through until it serves.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.client import Client, DisconnectedError, create, delete, set_
from tests.chaos.disks import strace
from tests.chaos.history import History
from tests.chaos.remains import Remains, read_remains
from tests.chaos.trial import SMALL_TICKS, addresses, wait_level
from tests.peers import OttlaKeepers, wait_until
from tests.peers.words import mode

SETTINGS = {**SMALL_TICKS, "commitLogCount": "30", "snapCount": "50"}
CALLS = ["pwritev,pwritev2", "pwrite64", "fdatasync", "fsync", "rename", "unlink", "ftruncate", "write"]
LEADER, VICTIM = 2, 2
N_MAX = 200


class Ground:
    """An ensemble of which one server is down, and the image of that server's directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keepers = OttlaKeepers(3, folder, settings=SETTINGS)
        self.image = folder / "image"
        self._history = History(folder / "history.jsonl")
        self._clients: list[Client] = []
        self._writer = self.client()
        self._count = 0
        self._reads = 0

    def client(self, silence_s: float = 10) -> Client:
        client = Client(f"c{len(self._clients)}", addresses(self.keepers), self._history, silence_s=silence_s)
        self._clients.append(client)
        return client

    def end_sessions(self) -> None:
        """Nothing is to happen by itself from now on."""
        for client in self._clients:
            assert client.connect(deadline=time.monotonic() + 120)
            client.end()

    def write(self, count: int) -> None:
        for _ in range(count):
            self._count += 1
            path = f"/n{self._count}"
            self._call_until_done(path)

    def _call_until_done(self, path: str) -> None:
        deadline = time.monotonic() + 120
        while self._writer.connect(deadline=deadline):
            try:
                self._writer.call(
                    create(path, "x" * 100), set_(path, "y" * 100), create(f"{path}x"), delete(f"{path}x")
                )
                return
            except DisconnectedError:
                continue
        raise TimeoutError(path)

    def save_victim(self) -> None:
        self.keepers.kill(VICTIM)
        shutil.copytree(self.keepers.data(VICTIM), self.image)

    def reset_victim(self) -> None:
        self.keepers.kill(VICTIM)
        shutil.rmtree(self.keepers.data(VICTIM))
        shutil.copytree(self.image, self.keepers.data(VICTIM))

    def read(self, data: Path) -> Remains:
        self._reads += 1
        scratch = self.folder / f"read-{self._reads}"
        scratch.mkdir()
        try:
            return read_remains("0", data, scratch)
        finally:
            shutil.rmtree(scratch)

    def close(self) -> None:
        for client in self._clients:
            client.disconnect()
        self._history.close()
        self.keepers.stop()


def behind(ground: Ground) -> None:
    ground.save_victim()
    ground.write(4)


def far_behind(ground: Ground) -> None:
    ground.save_victim()
    ground.write(30)


def astray(ground: Ground) -> None:
    """The victim was the leader, and proposed what its followers stood too still to take."""
    keepers = ground.keepers
    alone = ground.client(silence_s=10)  # a leader that hears of nobody hangs up long before
    while alone.server != VICTIM:
        alone.disconnect()
        assert alone.connect(deadline=time.monotonic() + 120)
    for follower in (0, 1):
        keepers.pause(follower)
    with pytest.raises(DisconnectedError):
        alone.call(*(create(f"/astray{number}") for number in range(8)))
    for index in range(3):
        keepers.kill(index)
    ground.save_victim()
    for follower in (0, 1):
        keepers.servers[follower].start()
    keepers.wait_ready()
    ground.write(4)


Way = Callable[[Ground], None]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    try:
        # Of two the higher one leads, and who comes later follows. Of three at once, two may not wait for the last.
        for together in ((LEADER, LEADER - 1), (0,)):
            for index in together:
                ground.keepers.servers[index].start()
            ground.keepers.wait_ready()
        assert ground.keepers.leader() == LEADER
        ground.write(4)
        yield ground
    finally:
        ground.close()


def test_a_crash_during_a_truncation(ground: Ground) -> None:
    sweep(ground, astray, ["rename"])


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", [behind, far_behind, astray], ids=["DIFF", "SNAP", "TRUNC"])
def test_a_crash_at_every_call(ground: Ground, way: Way) -> None:
    sweep(ground, way, CALLS)


def sweep(ground: Ground, way: Way, calls: list[str]) -> None:
    way(ground)
    ground.end_sessions()
    expected = ground.read(ground.keepers.data(0))
    joined_by(ground, way, expected)
    fired = {call: sweep_call(ground, call, expected) for call in calls}
    print(way.__name__, fired)
    assert fired["rename"], "the epochs at least are written"


def sweep_call(ground: Ground, call: str, expected: Remains) -> int:
    """How many crashes there were."""
    server = ground.keepers.servers[VICTIM]
    # Sockets and the console are written to as well; these are the files.
    names = ("acceptedEpoch", "currentEpoch", f"installed.{expected.last_zxid:x}")
    files = [ground.keepers.data(VICTIM) / "version-2" / f"tmp.{name}" for name in names]
    for n in range(1, N_MAX):
        ground.reset_victim()
        paths = files if call == "write" else []
        with strace(server, ground.folder / "strace", call, f"signal=KILL:when={n}", paths):
            server.start()
        if survives(ground.keepers):
            return n - 1
        ground.keepers.restart(VICTIM)
        check_victim(ground, expected)
    return N_MAX


def survives(keepers: OttlaKeepers) -> bool:
    """Until the victim serves or has died."""
    server, port = keepers.servers[VICTIM], keepers.client_ports[VICTIM]
    wait_until(lambda: mode(port) is not None or not server.running, timeout_s=120, what="the victim serves or dies")
    return server.running


def check_victim(ground: Ground, expected: Remains) -> None:
    wait_level([addresses(ground.keepers)[VICTIM]], expected.last_zxid)
    ground.keepers.kill(VICTIM)
    found = ground.read(ground.keepers.data(VICTIM))
    assert (found.last_zxid, found.nodes) == (expected.last_zxid, expected.nodes)


def joined_by(ground: Ground, way: Way, expected: Remains) -> None:
    """The victim really joins in the way that is to be tested."""
    before = ground.read(ground.image)
    ground.reset_victim()
    ground.keepers.restart(VICTIM)
    check_victim(ground, expected)
    after = ground.read(ground.keepers.data(VICTIM))
    known = {txn.zxid for txn in expected.txns}
    first = after.txns[0].zxid if after.txns else expected.last_zxid
    assert (before.last_zxid not in known) == (way is astray)
    assert (first > before.last_zxid) == (way is far_behind)
