"""Every operation, ended at every call of the disk: what is recovered is the old history or the new, never a mixture."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.txns import decode_txn
from ottla.keeper.store import DataDir, Recovered, TxnLog, datadir, durable, encode_snapshot, txnlog
from ottla.keeper.store.durable import AtomicFile
from ottla.keeper.store.synced import SYNCED_NAME
from tests.sources import COMPILED
from tests.unit.keeper.store.faults import CrashError, PowerLoss, dying_at, kill
from tests.unit.keeper.store.histories import History, rich_history, seen

State = dict[str, Any]
Action = Callable[[DataDir], object]


class Stored:
    """A directory with snapshots, several logs, and the tree at each zxid of its history."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.states: dict[int, State] = {}
        self.states[0] = seen(History().tree)
        store = DataDir(directory)
        log = store.recover().log
        self.history = rich_history()
        batch = self.history.entries
        for number in range(4):
            log.append(batch)
            log.sync()
            log.roll()
            if number < 2:
                store.save_snapshot(self.history.tree)
            batch = self.history.fill(12) if number < 3 else []
        store.write_accepted_epoch(5)
        store.write_current_epoch(1)
        store.close()
        replayed = History()
        for entry in self.history.entries:
            replayed.tree.apply(decode_txn(entry.raw))
            self.states[entry.zxid] = seen(replayed.tree)

    @property
    def last_zxid(self) -> int:
        return self.history.tree.last_zxid

    @property
    def state(self) -> State:
        return self.states[self.last_zxid]


def other_history() -> History:
    """A history that shares nothing with the stored one, ending before and behind its zxids."""
    other = History()
    other.create("/elsewhere", b"other")
    other.fill(9)
    return other


def recovered(directory: Path) -> tuple[State, Recovered]:
    store = DataDir(directory)
    try:
        result = store.recover()
        return seen(result.tree), result
    finally:
        store.close()


def crash_everywhere(
    make: Callable[[], Path], action: Action, check: Callable[[Path], None], *, power: bool, recover_first: bool = True
) -> int:
    """Run ``action`` on fresh directories, dying at its first, second, … call, until it gets through."""
    call = 0
    while True:
        directory = make()
        with pytest.MonkeyPatch.context() as patch:
            store = DataDir(directory)
            if recover_first:
                store.recover()
            loss = PowerLoss(directory, patch) if power else None
            with dying_at(call, patch):
                try:
                    action(store)
                    finished = True
                except CrashError:
                    finished = False
        kill(store)
        if loss is not None:
            loss.power_off()
        check(directory)
        if finished:
            return call
        call += 1


@pytest.fixture(params=[False, True], ids=["killed", "power lost"])
def power(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Fresh:
    """Makes the same stored directory again and again."""

    def __init__(self, stored: Stored, directory: Path) -> None:
        self.stored = stored
        self._directory = directory
        self._copies = count()

    def __call__(self) -> Path:
        copy = self._directory / f"copy-{next(self._copies)}"
        shutil.copytree(self.stored.directory, copy)
        return copy


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("stored"))


@pytest.fixture
def fresh(stored: Stored, tmp_path: Path) -> Fresh:
    return Fresh(stored, tmp_path)


def test_save_snapshot(fresh: Fresh, stored: Stored, power: bool) -> None:

    def check(directory: Path) -> None:
        assert recovered(directory)[0] == stored.state

    assert crash_everywhere(fresh, lambda store: store.save_snapshot(stored.history.tree), check, power=power) > 4


@pytest.mark.parametrize("above", [False, True], ids=["older zxid", "newer zxid"])
def test_install_snapshot(fresh: Fresh, stored: Stored, power: bool, above: bool) -> None:
    other = other_history()
    if above:
        while other.tree.last_zxid <= stored.last_zxid:
            other.next_epoch()
            other.fill(5)
    old, new = stored.state, seen(other.tree)
    chunks = list(encode_snapshot(other.tree))
    outcomes = []

    def check(directory: Path) -> None:
        state, result = recovered(directory)
        assert state in (old, new)
        outcomes.append(state == new)
        if state == new:
            assert result.replayed == 0
            assert result.recent == []
        # It goes on from there, in either case.
        store = DataDir(directory)
        again = store.recover()
        onward = History(again.tree)
        again.log.append(onward.fill(3))
        again.log.sync()
        kill(store)
        assert recovered(directory)[0] == seen(onward.tree)

    crash_everywhere(fresh, lambda store: store.install_snapshot(chunks, other.tree.last_zxid), check, power=power)
    assert outcomes == sorted(outcomes)  # there is one point at which it switches
    assert set(outcomes) == {False, True}


def test_truncate(fresh: Fresh, stored: Stored, power: bool) -> None:
    zxids = sorted(stored.states)
    target = zxids[len(zxids) // 2]
    ends = []

    def check(directory: Path) -> None:
        # A ZooKeeper would find the same, though it knows nothing of the mark.
        copy = directory.with_name(f"{directory.name}-unmarked")
        shutil.copytree(directory, copy)
        (copy / "version-2" / SYNCED_NAME).unlink()
        unmarked = recovered(copy)[0]
        state, result = recovered(directory)
        assert state == stored.states[result.last_zxid]
        assert target <= result.last_zxid
        assert unmarked == state
        ends.append(result.last_zxid)

    crash_everywhere(fresh, lambda store: store.truncate_to(target), check, power=power)
    assert ends[0] == stored.last_zxid
    assert ends[-1] == target
    assert ends == sorted(ends, reverse=True)


def test_purge(fresh: Fresh, stored: Stored, power: bool) -> None:

    def check(directory: Path) -> None:
        assert recovered(directory)[0] == stored.state

    assert crash_everywhere(fresh, lambda store: store.purge(1), check, power=power) > 2


def test_append_and_sync(fresh: Fresh, stored: Stored, power: bool) -> None:
    more = History(recovered(fresh())[1].tree)
    entries = [more.fill(3) for _ in range(4)]
    states = {**stored.states}
    replayed = recovered(fresh())[1].tree
    for entry in more.entries:
        replayed.apply(decode_txn(entry.raw))
        states[entry.zxid] = seen(replayed)
    synced = [0]

    def action(store: DataDir) -> None:
        synced[0] = stored.last_zxid
        for index, batch in enumerate(entries):
            store.log.append(batch)
            if index == 2:
                store.log.roll()
            synced[0] = store.log.sync()

    def check(directory: Path) -> None:
        state, result = recovered(directory)
        assert state == states[result.last_zxid]
        assert result.last_zxid >= synced[0]

    crash_everywhere(fresh, action, check, power=power)


@pytest.mark.parametrize("name", ["accepted", "current"])
def test_epochs(fresh: Fresh, power: bool, name: str) -> None:
    def action(store: DataDir) -> None:
        store.write_accepted_epoch(7)
        if name == "current":
            store.write_current_epoch(7)

    def check(directory: Path) -> None:
        _, result = recovered(directory)
        assert result.accepted_epoch in (5, 7)
        assert result.current_epoch in (1, 7)
        assert result.current_epoch <= result.accepted_epoch

    crash_everywhere(fresh, action, check, power=power)


def test_recovery_of_a_blank_server(tmp_path: Path, power: bool) -> None:
    blank, directories = seen(History().tree), count()

    def make() -> Path:
        return tmp_path / f"blank-{next(directories)}"

    def check(directory: Path) -> None:
        assert recovered(directory)[0] == blank

    crash_everywhere(make, lambda store: store.recover(), check, power=power, recover_first=False)


def test_recovery_that_cuts_a_torn_tail(fresh: Fresh, stored: Stored, power: bool) -> None:
    zxids = sorted(stored.states)

    def make() -> Path:
        directory = fresh()
        last = max((directory / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
        last.write_bytes(last.read_bytes()[:-5])
        (directory / "version-2" / SYNCED_NAME).unlink()  # nothing says that this was on the disk
        return directory

    def check(directory: Path) -> None:
        assert recovered(directory)[0] == stored.states[zxids[-2]]

    crash_everywhere(make, lambda store: store.recover(), check, power=power, recover_first=False)


def test_recovery_that_finishes_an_installation(fresh: Fresh, power: bool) -> None:
    other = other_history()
    image = b"".join(encode_snapshot(other.tree))

    def make() -> Path:
        directory = fresh()
        (directory / "version-2" / f"installed.{other.tree.last_zxid:x}").write_bytes(image)
        return directory

    def check(directory: Path) -> None:
        assert recovered(directory)[0] == seen(other.tree)

    crash_everywhere(make, lambda store: store.recover(), check, power=power, recover_first=False)


def _nothing(*_: object, **__: object) -> None:
    pass


class _LazyOs:
    """``os``, but for one function. The module itself is what the faults are built into."""

    fdatasync = staticmethod(_nothing)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _out_of_order(paths: Iterable[Path]) -> None:
    for path in reversed(list(paths)):
        path.unlink()
        durable.fsync_directory(path.parent)


def _installed_at_once(store: DataDir, received: AtomicFile, zxid: int) -> None:
    received.path = store.snapshots / f"snapshot.{zxid:x}"
    received.commit()
    store.log.reset(zxid)


def _keeping_its_mark(log: TxnLog, file_zxid: int, offset: int) -> None:
    """What is about to go is still said to be there."""


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[..., None]]] = {
    "names are never synced": (
        lambda patch: patch.setattr(durable, "fsync_directory", _nothing),
        lambda fresh, stored: test_install_snapshot(fresh, stored, power=True, above=False),
    ),
    "files are renamed before they are synced": (
        lambda patch: patch.setattr(AtomicFile, "flush", _nothing),
        lambda fresh, stored: test_install_snapshot(fresh, stored, power=True, above=True),
    ),
    "the log is never synced": (
        lambda patch: patch.setattr(txnlog, "os", _LazyOs()),
        lambda fresh, stored: test_append_and_sync(fresh, stored, power=True),
    ),
    "the directory of the log is never synced": (
        lambda patch: patch.setattr(txnlog, "fsync_directory", _nothing),
        lambda fresh, stored: test_append_and_sync(fresh, stored, power=True),
    ),
    "old logs are deleted oldest first": (
        lambda patch: patch.setattr(txnlog, "remove_in_order", _out_of_order),
        lambda fresh, stored: test_truncate(fresh, stored, power=False),
    ),
    "a log is truncated before its mark is lowered": (
        lambda patch: patch.setattr(TxnLog, "_lower_mark", _keeping_its_mark),
        lambda fresh, stored: test_truncate(fresh, stored, power=False),
    ),
    "a log is replaced before its mark is lowered": (
        lambda patch: patch.setattr(datadir, "lower_mark", _nothing),
        lambda fresh, _stored: test_recovery_that_finishes_an_installation(fresh, power=True),
    ),
    "a received snapshot is put beside the old history": (
        lambda patch: patch.setattr(DataDir, "_install", _installed_at_once),
        lambda fresh, stored: test_install_snapshot(fresh, stored, power=False, above=False),
    ),
}


@pytest.mark.skipif(COMPILED, reason="nothing can be put in the place of compiled methods")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_these_tests_notice_when(fresh: Fresh, stored: Stored, monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    change, test = MUTANTS[mutant]
    change(monkeypatch)
    with pytest.raises((AssertionError, CorruptionError)):
        test(fresh, stored)
