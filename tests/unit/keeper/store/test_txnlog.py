from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.txns import Entry
from ottla.keeper.store import TxnLog, follows
from ottla.keeper.store.entries import LOG_HEADER, encode_entries
from ottla.keeper.store.logreader import LogReader, find_entry
from ottla.keeper.store.synced import Mark, read_mark
from tests.unit.keeper.store.histories import History, rich_history


@pytest.fixture
def log(tmp_path: Path) -> Iterator[TxnLog]:
    log = TxnLog(tmp_path, base_zxid=0, last_zxid=0)
    yield log
    log.close()


@pytest.fixture
def entries() -> list[Entry]:
    return History().fill(30)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("log.*"))


@pytest.mark.parametrize(
    ("after", "zxid", "expected"),
    [
        (0, 1, True),
        (0, 2, False),
        (0, 0x1_0000_0001, True),
        (0x1_0000_0005, 0x1_0000_0006, True),
        (0x1_0000_0005, 0x1_0000_0005, False),
        (0x1_0000_0005, 0x1_0000_0007, False),
        (0x1_0000_0005, 0x2_0000_0001, True),
        (0x1_0000_0005, 0x7_0000_0001, True),
        (0x1_0000_0005, 0x2_0000_0002, False),
        (0x2_0000_0005, 0x1_0000_0001, False),
        (0x2_0000_0000, 0x2_0000_0001, True),
    ],
)
def test_what_follows_what(after: int, zxid: int, expected: bool) -> None:
    assert follows(zxid, after=after) is expected


def test_what_is_appended_is_read(log: TxnLog, tmp_path: Path, entries: list[Entry]) -> None:
    log.append(entries[:10])
    log.append(entries[10:11])
    log.append([])
    log.append(entries[11:])
    assert log.sync() == 30
    assert list(log.read(0)) == entries
    assert list(log.read(17)) == entries[16:]
    assert list(log.read(31)) == []
    assert names(tmp_path) == ["log.1"]


def test_a_file_is_laid_out_as_zookeepers(log: TxnLog, tmp_path: Path, entries: list[Entry]) -> None:
    log.append(entries)
    data = (tmp_path / "log.1").read_bytes()
    written = LOG_HEADER + encode_entries(entries)
    assert data.startswith(written)
    assert len(data) == 1 << 20
    assert not data[len(written) :].strip(b"\0")
    log.close()
    assert (tmp_path / "log.1").read_bytes() == written


def test_space_is_reserved_in_chunks(tmp_path: Path) -> None:
    log = TxnLog(tmp_path, base_zxid=0, last_zxid=0, pre_alloc_size=4)
    history = History()
    history.create("/big")
    log.append(history.entries)
    file = tmp_path / "log.1"
    assert file.stat().st_size == 4096
    log.append([history.set("/big", b"x" * 3900)])
    assert file.stat().st_size == 4096
    log.append([history.set("/big", b"x" * 10_000)])
    assert file.stat().st_size == 16384
    assert list(log.read(0)) == history.entries
    log.close()


def test_without_preallocation_a_file_ends_with_its_entries(tmp_path: Path, entries: list[Entry]) -> None:
    log = TxnLog(tmp_path, base_zxid=0, last_zxid=0, pre_alloc_size=0)
    log.append(entries)
    assert (tmp_path / "log.1").stat().st_size == 16 + len(encode_entries(entries))
    log.close()


def test_zookeepers_default_does_not_fill_64_mebibytes(tmp_path: Path, entries: list[Entry]) -> None:
    log = TxnLog(tmp_path, base_zxid=0, last_zxid=0, pre_alloc_size=65536)
    log.append(entries)
    assert (tmp_path / "log.1").stat().st_size == 1 << 20
    log.close()


def test_roll_opens_a_file_named_after_its_first_entry(log: TxnLog, tmp_path: Path, entries: list[Entry]) -> None:
    log.append(entries[:10])
    log.roll()
    log.roll()
    log.append(entries[10:20])
    log.roll()
    log.sync()
    log.append(entries[20:])
    log.sync()
    assert names(tmp_path) == ["log.1", "log.15", "log.b"]
    assert (tmp_path / "log.1").stat().st_size == 16 + len(encode_entries(entries[:10]))
    assert list(log.read(0)) == entries
    assert list(log.read(10)) == entries[9:]
    assert len(log._open_files) == 1


def test_reading_stops_at_the_last_entry_of_the_call(log: TxnLog, entries: list[Entry]) -> None:
    log.append(entries[:10])
    reading = log.read(0)
    log.append(entries[10:])
    assert list(reading) == entries[:10]


@pytest.mark.parametrize("zxid", [3, 32, 0x1_0000_0002, 30])
def test_what_does_not_follow_is_refused(log: TxnLog, entries: list[Entry], zxid: int) -> None:
    log.append(entries)
    with pytest.raises(AssertionError, match="appended behind"):
        log.append([entries[0]._replace(zxid=zxid)])
    assert log.last_zxid == 30


@pytest.mark.parametrize("zxid", [30, 29, 21, 20, 19, 11, 10, 1, 0])
def test_truncate(log: TxnLog, entries: list[Entry], zxid: int) -> None:
    for start in (0, 10, 20):
        log.append(entries[start : start + 10])
        log.roll()
    assert log.truncate_to(zxid) == zxid
    assert log.last_zxid == zxid
    assert list(log.read(0)) == entries[:zxid]
    again = entries[zxid:]
    log.append(again)
    log.sync()
    assert list(log.read(0)) == entries


def test_truncate_tells_where_it_ended(log: TxnLog) -> None:
    history = rich_history()
    log.append(history.entries)
    assert log.truncate_to(0xFFFF) == 6
    assert [entry.zxid for entry in log.read(0)] == [1, 2, 3, 4, 5, 6]


def test_truncate_never_goes_by_a_damaged_file(log: TxnLog, tmp_path: Path, entries: list[Entry]) -> None:
    log.append(entries)
    log.roll()
    log.sync()
    file = tmp_path / "log.1"
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptionError, match="checksum"):
        log.truncate_to(20)
    assert file.read_bytes() == data


def test_reset_leaves_nothing(log: TxnLog, tmp_path: Path, entries: list[Entry]) -> None:
    log.append(entries[:20])
    log.roll()
    log.append(entries[20:])
    log.reset(0x2_0000_0007)
    assert names(tmp_path) == []
    log.append([entries[0]._replace(zxid=0x2_0000_0008)])
    log.sync()
    assert names(tmp_path) == ["log.200000008"]


def test_the_mark_follows_the_sync(log: TxnLog, tmp_path: Path, entries: list[Entry]) -> None:
    assert read_mark(tmp_path) == Mark(0, 0, 0)
    log.append(entries[:10])
    assert read_mark(tmp_path) == Mark(0, 0, 0)
    log.sync()
    first = 16 + len(encode_entries(entries[:10]))
    assert read_mark(tmp_path) == Mark(1, first, 1)
    log.append(entries[10:20])
    assert read_mark(tmp_path) == Mark(1, first, 1)
    log.roll()
    log.append(entries[20:])
    log.sync()
    assert read_mark(tmp_path) == Mark(21, 16 + len(encode_entries(entries[20:])), 21)
    log.truncate_to(5)
    assert read_mark(tmp_path) == Mark(1, 16 + len(encode_entries(entries[:5])), 1)


@pytest.mark.parametrize("damage", [b"", b"x" * 28, b"\0" * 28])
def test_a_mark_that_is_none_counts_for_nothing(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "synced").write_bytes(damage)
    assert read_mark(tmp_path) is None


def test_sync_covers_what_was_appended_before_it_from_another_thread(log: TxnLog, tmp_path: Path) -> None:
    """Appends go on while syncs run, files roll under them, and the durable zxid never runs ahead."""
    history = History()
    entries = history.fill(3000)
    stop = threading.Event()
    seen: list[tuple[int, int]] = []

    def sync() -> None:
        while not stop.is_set():
            before = log.last_zxid
            seen.append((before, log.sync()))

    thread = threading.Thread(target=sync)
    thread.start()
    for start in range(0, len(entries), 3):
        log.append(entries[start : start + 3])
        if start % 300 == 0:
            log.roll()
    stop.set()
    thread.join()
    assert log.sync() == 3000
    assert all(durable >= before for before, durable in seen)
    assert list(log.read(0)) == entries
    assert len(log._open_files) == 1
    assert len(names(tmp_path)) == 11


class TestFailures:
    def test_a_failed_sync_ends_the_log(
        self, log: TxnLog, entries: list[Entry], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.append(entries[:10])
        log.sync()
        log.append(entries[10:])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", _failing(errno.EIO))
            with pytest.raises(OSError, match="Input/output"):
                log.sync()
        for use in (log.sync, lambda: log.append([]), lambda: log.truncate_to(1), lambda: log.reset(1)):
            with pytest.raises(OSError, match="out of use"):
                use()
        assert log.durable_zxid == 10

    @pytest.mark.parametrize("call", ["fsync", "ftruncate", "fdatasync"])
    def test_so_does_any_step_of_a_sync(
        self, log: TxnLog, entries: list[Entry], monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        log.append(entries[:10])
        log.roll()
        log.append(entries[10:])
        with monkeypatch.context() as patch:
            patch.setattr(os, call, _failing(errno.EIO))
            with pytest.raises(OSError, match="Input/output"):
                log.sync()
        with pytest.raises(OSError, match="out of use"):
            log.sync()

    @pytest.mark.parametrize("written", [0, 1, 11, 12, 13, 100, 500])
    def test_a_short_write_is_taken_back(
        self, log: TxnLog, tmp_path: Path, entries: list[Entry], monkeypatch: pytest.MonkeyPatch, written: int
    ) -> None:
        log.append(entries[:10])
        real = os.pwritev

        def short(fd: int, buffers: list[Any], offset: int) -> int:
            return os.pwrite(fd, b"".join(buffers)[:written], offset) if written else real(fd, [b""], offset)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", short)
            patch.setattr(os, "pwrite", _failing_after(os.pwrite, 1 if written else 0, errno.ENOSPC))
            with pytest.raises(OSError, match="No space"):
                log.append(entries[10:])
        assert log.last_zxid == 10
        reader = LogReader(tmp_path / "log.1")
        assert list(reader) == entries[:10]
        assert reader.damage is None
        log.append(entries[10:])
        log.sync()
        assert list(log.read(0)) == entries

    def test_a_short_write_that_can_be_completed_is(
        self, log: TxnLog, entries: list[Entry], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", lambda fd, buffers, offset: os.pwrite(fd, buffers[0][:50], offset))
            log.append(entries)
        assert list(log.read(0)) == entries

    def test_a_failed_first_write_leaves_no_file(
        self, log: TxnLog, tmp_path: Path, entries: list[Entry], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", _failing(errno.ENOSPC))
            with pytest.raises(OSError, match="No space"):
                log.append(entries)
        assert names(tmp_path) == []
        log.append(entries)
        assert log.sync() == 30

    def test_what_cannot_be_taken_back_ends_the_log(
        self, log: TxnLog, tmp_path: Path, entries: list[Entry], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.append(entries[:10])
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", _failing(errno.EIO))
            patch.setattr(os, "ftruncate", _failing(errno.EIO))
            with pytest.raises(OSError, match="Input/output"):
                log.append(entries[10:])
        with pytest.raises(OSError, match="out of use"):
            log.append(entries[10:])

    @pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
    def test_a_full_disk(self, tmp_path: Path, entries: list[Entry]) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True)
        try:
            log = TxnLog(disk, base_zxid=0, last_zxid=0, pre_alloc_size=16)
            history, written = History(), 0
            history.create("/big")
            with pytest.raises(OSError, match="No space"):
                while True:
                    log.append(history.entries[written:])
                    log.sync()
                    written = len(history.entries)
                    history.set("/big", b"x" * 3000)
            assert 10 < written < 22
            reader = LogReader(disk / "log.1")
            assert list(reader) == history.entries[:written]
            assert reader.damage is None
            assert log.sync() == written
            log.truncate_to(3)
            log.append(history.entries[3:10])
            assert log.sync() == 10
            assert list(log.read(0)) == history.entries[:10]
            log.close()
        finally:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.umount2(os.fsencode(disk), 2) == 0


def test_find_entry_sees_through_rubbish(tmp_path: Path, entries: list[Entry]) -> None:
    file = tmp_path / "log.1"
    rubbish = b"\0\0\0\0rubbish\0\0\0\0\0\x01\x02\x03" * 50
    file.write_bytes(rubbish + encode_entries(entries[7:9]) + rubbish)
    assert find_entry(file, 0, after=0) == len(rubbish)
    assert find_entry(file, len(rubbish) + 1, after=0) == len(rubbish) + len(encode_entries(entries[7:8]))
    assert find_entry(file, 0, after=9) is None
    file.write_bytes(rubbish)
    assert find_entry(file, 0, after=0) is None
    file.write_bytes(b"")
    assert find_entry(file, 0, after=0) is None


def _failing(code: int) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def _failing_after(real: Any, calls: int, code: int) -> Any:
    left = calls

    def call(*args: Any) -> Any:
        nonlocal left
        if left == 0:
            raise OSError(code, os.strerror(code))
        left -= 1
        return real(*args)

    return call
