"""Reading a transaction log file (``entries`` has the format): entry by entry, or in search of one behind damage.

Not compiled: an iterator that is given up half-way closes its file, which those of mypyc do not.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final
from zlib import adler32

from ottla.keeper.proto.txns import TXN_HEADER, Entry, zxid_of
from ottla.keeper.store.entries import ENTRY_END, ENTRY_HEAD, ENTRY_OVERHEAD, LOG_HEADER, TXN_BYTES_MAX

_READ_BYTES: Final = 1 << 18
_ZEROS: Final = bytes(_READ_BYTES)
# What can begin an entry: a 32-bit checksum widened to a long, then a length from 1 to TXN_BYTES_MAX.
_MAYBE_ENTRY: Final = re.compile(rb"(?=\x00{4}(?!\x00{4})[\x00-\xff]{4}(?!\x00{4})[\x00-\x10])")


class LogReader:
    """One pass over the entries of a file, in constant memory.

    Once iteration ends, ``end`` is the offset behind the last whole entry, and ``damage`` says what follows there;
    None if it is nothing but padding.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        self.damage: str | None = None

    def __iter__(self) -> Iterator[Entry]:
        with self.path.open("rb", buffering=_READ_BYTES) as file:
            size = os.fstat(file.fileno()).st_size
            header = file.read(len(LOG_HEADER))
            if header[:8] != LOG_HEADER[:8]:  # the database id has no meaning
                self.damage = "not the header of a transaction log" if header.strip(b"\0") else "no header"
                return
            self.end = len(header)
            while (entry := self._next(file, size)) is not None:
                yield entry
                # Only now: a consumer that stops at an entry finds ``end`` in front of it.
                self.end += ENTRY_OVERHEAD + len(entry.raw)

    def _next(self, file: BinaryIO, size: int) -> Entry | None:
        head = file.read(ENTRY_HEAD.size)
        if not head.strip(b"\0"):
            self.damage = None if _only_zeros(file) else "zeros where an entry should be"
            return None
        if len(head) < ENTRY_HEAD.size:
            self.damage = "the file ends inside an entry"
            return None
        checksum, length = ENTRY_HEAD.unpack(head)
        if not TXN_HEADER.size <= length <= TXN_BYTES_MAX:
            self.damage = f"an entry of impossible length {length}"
            return None
        if self.end + ENTRY_OVERHEAD + length > size:
            self.damage = "the file ends inside an entry"
            return None
        body = file.read(length + 1)
        raw = body[:-1]
        if body[-1:] != ENTRY_END or adler32(raw) != checksum:
            self.damage = "an entry whose checksum does not match"
            return None
        return Entry(zxid_of(raw), raw)


def find_entry(path: Path, offset: int, *, after: int) -> int | None:
    """The offset of a whole entry at or behind ``offset`` with a zxid above ``after``; None if there is none."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size - offset < ENTRY_OVERHEAD + TXN_HEADER.size:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for match in _MAYBE_ENTRY.finditer(data, offset):
                at = match.start()
                if at + ENTRY_HEAD.size > size:
                    break
                checksum, length = ENTRY_HEAD.unpack_from(data, at)
                start, stop = at + ENTRY_HEAD.size, at + ENTRY_HEAD.size + length
                if length < TXN_HEADER.size or stop >= size or data[stop] != ENTRY_END[0]:
                    continue
                raw = data[start:stop]
                if adler32(raw) == checksum and zxid_of(raw) > after:
                    return at
    return None


def _only_zeros(file: BinaryIO) -> bool:
    while chunk := file.read(_READ_BYTES):
        if chunk != _ZEROS[: len(chunk)]:
            return False
    return True
