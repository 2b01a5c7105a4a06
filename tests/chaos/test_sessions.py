"""Sessions whose clients fall silent: they end when their time is up, not before, and not much later."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from tests.chaos.client import Client, DisconnectedError, create, exists, sync
from tests.chaos.history import History
from tests.chaos.trial import SMALL_TICKS, TICK_MS, addresses, data_of, judge, newest_zxid, revive, wait_level
from tests.peers import OttlaKeepers, wait_until

TIMEOUT_MS = 2000
LATE_MS = 2 * TICK_MS + 10_000
"""Two ticks, and what a busy machine adds."""


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.jsonl")


def test_a_silent_session_ends_in_time(tmp_path: Path, history: History) -> None:
    with OttlaKeepers(3, tmp_path, settings=SMALL_TICKS) as keepers:
        silent, watcher = connected(keepers, history)
        sent = time.monotonic()
        silent.call(create("/e", flags=1))
        heard = time.monotonic()
        silent.disconnect()
        watcher.call(sync())  # its server may not have heard of the node yet
        gone = wait_gone(watcher, "/e")
        assert (gone - sent) * 1000 >= TIMEOUT_MS
        assert (gone - heard) * 1000 <= TIMEOUT_MS + LATE_MS
        assert silent.connect(deadline=time.monotonic() + 120)
        assert silent.sessions == 2, "the old session is no more"
        finish(keepers, history, tmp_path, silent, watcher)


@pytest.mark.long
def test_a_new_leader_starts_the_clock_anew(tmp_path: Path, history: History) -> None:
    with OttlaKeepers(3, tmp_path, settings=SMALL_TICKS) as keepers:
        silent, watcher = connected(keepers, history)
        silent.call(create("/e", flags=1))
        heard = time.monotonic()
        silent.disconnect()
        watcher.call(sync())
        time.sleep(TIMEOUT_MS / 2000)  # half of its time
        leader = keepers.leader()
        killed = time.monotonic()
        keepers.kill(leader)
        gone = wait_gone(watcher, "/e")
        assert (gone - heard) * 1000 >= TIMEOUT_MS
        assert TIMEOUT_MS <= (gone - killed) * 1000 <= TIMEOUT_MS + LATE_MS + 2000
        finish(keepers, history, tmp_path, silent, watcher)


@pytest.mark.long
def test_a_session_moves_just_in_time(tmp_path: Path, history: History) -> None:
    """A client that is away for a little less than its timeout, again and again, keeps its session."""
    with OttlaKeepers(3, tmp_path, settings=SMALL_TICKS) as keepers:
        silent, watcher = connected(keepers, history)
        silent.call(create("/e", flags=1))
        for _ in range(6):
            silent.disconnect()
            time.sleep(0.6 * TIMEOUT_MS / 1000)
            assert silent.connect(deadline=time.monotonic() + 120)
            assert silent.call(exists("/e"))[0]["err"] == 0
        assert silent.sessions == 1
        finish(keepers, history, tmp_path, silent, watcher)


def connected(keepers: OttlaKeepers, history: History) -> tuple[Client, Client]:
    """One client with a short timeout, and one that looks on."""
    history.happened("test", "note", "clock", {"wall_ms": time.time_ns() / 1e6})
    silent = Client("silent", addresses(keepers), history, timeout_ms=TIMEOUT_MS, silence_s=60)
    watcher = Client("watcher", addresses(keepers), history, silence_s=60)
    for client in (silent, watcher):
        assert client.connect(deadline=time.monotonic() + 120)
    return silent, watcher


def wait_gone(watcher: Client, path: str) -> float:
    """When ``path`` was seen to be gone."""

    def is_gone() -> bool:
        assert watcher.connect(deadline=time.monotonic() + 120)
        with contextlib.suppress(DisconnectedError):
            return bool(watcher.call(exists(path))[0]["err"])
        return False

    wait_until(is_gone, timeout_s=120, what=f"{path} is gone")
    return time.monotonic()


def finish(keepers: OttlaKeepers, history: History, folder: Path, *clients: Client) -> None:
    revive(keepers)
    for client in clients:
        assert client.connect(deadline=time.monotonic() + 120)
        client.end()
    wait_level(addresses(keepers), newest_zxid(history.events))
    keepers.stop()
    history.close()
    assert judge(history, folder, data_of(keepers)) == []
