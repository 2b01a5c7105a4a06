"""The sync mark: how far the transaction log is known to have reached the disk.

Between two syncs the kernel writes pages back in any order, so a power cut may leave a later page of the log on disk
and an earlier one not: zeros or old bytes with whole entries behind them. Nobody was told that those entries are
safe, and cutting them off is right. But the same picture in bytes that *were* synced means a damaged disk, and
cutting would silently undo what was acknowledged. The bytes alone cannot tell the two apart; this mark can.

    synced, beside the logs: 28 bytes

      8   zxid in the name of the newest file that was synced
      8   how many of its bytes were, at least; all files before it were synced whole
      8   zxid in the name of the newest file this server has opened; files behind it are somebody else's
      4   Adler-32 of the above

It is rewritten after every sync, into the page cache only, where it survives the death of the process; it is synced
itself before and after the first sync of a file, and from time to time. Before the log is shortened on purpose, the
mark is lowered, and that is synced. After a power cut it may therefore lag, never lead, and a lagging mark errs towards
cutting only where damage and a power cut meet in the last stretch of the log. ZooKeeper ignores the file, and without
it, or behind logs that ZooKeeper wrote, doubt means refusing to start.

Since it never leads, a log that ends before it has lost what was acknowledged, and that means refusing to start, too.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import adler32

SYNCED_NAME: Final = "synced"
_MARK: Final = Struct(">qqq")
_SEAL: Final = Struct(">I")


class Mark(NamedTuple):
    file_zxid: int
    offset: int
    newest_zxid: int

    def may_be_unsynced(self, file_zxid: int, offset: int, newest_zxid: int) -> bool:
        """True if a power cut alone explains that a byte of the log is not what was written."""
        return (file_zxid, offset) >= (self.file_zxid, self.offset) and newest_zxid <= self.newest_zxid


def read_mark(directory: Path) -> Mark | None:
    """The mark; None where there is none that can be trusted."""
    try:
        with (directory / SYNCED_NAME).open("rb") as file:
            raw = file.read(_MARK.size + _SEAL.size + 1)
    except FileNotFoundError:
        return None
    body, seal = raw[: _MARK.size], raw[_MARK.size :]
    if len(seal) != _SEAL.size or seal != _SEAL.pack(adler32(body)):
        return None
    return Mark._make(_MARK.unpack(body))


def lower_mark(directory: Path, file_zxid: int, offset: int) -> None:
    """Before the log of a server that does not run is shortened: claim no more for good than what will be left."""
    mark = read_mark(directory)
    if mark is not None and (mark.file_zxid, mark.offset) > (file_zxid, offset):
        file = SyncMark(directory)
        try:
            file.write(Mark(file_zxid, offset, mark.newest_zxid))
            file.sync()
        finally:
            file.close()


class SyncMark:
    """The open mark of a log that is being written."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / SYNCED_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, mark: Mark) -> None:
        body = _MARK.pack(*mark)
        os.pwrite(self._fd, body + _SEAL.pack(adler32(body)), 0)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)
