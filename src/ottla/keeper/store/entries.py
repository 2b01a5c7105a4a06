"""The format of a transaction log file, as plain functions and one reader.

    log.<hex zxid of the first entry>

      offset 0    4   magic "ZKLG"
             4    4   version, 2
             8    8   database id, 0
            16        entries, each:
                          8   Adler-32 of the transaction, as a long
                          4   n, length of the transaction
                          n   the transaction: header, body, digest (ottla.keeper.proto.txns)
                          1   'B'
                      zeros to the end of the file, where space was reserved ahead

The end of the entries is marked by nothing but zeros or the end of the file, so a file may end in three ways:
*clean*; *torn*, with bytes that are no entry and none behind them, which is what a crash leaves; or *broken*, with
bytes that are no entry and whole entries behind them. ``LogReader`` yields entries up to the first byte that
cannot be one and says why it stopped; ``find_entry`` tells torn from broken.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import BinaryIO
from zlib import adler32

from ottla.keeper.proto.txns import TXN_HEADER, Entry, zxid_of

LOG_PREFIX = "log"
FILE_HEADER = Struct(">4siq")
LOG_HEADER = FILE_HEADER.pack(b"ZKLG", 2, 0)
ENTRY_HEAD = Struct(">qi")
ENTRY_END = b"B"
ENTRY_OVERHEAD = ENTRY_HEAD.size + len(ENTRY_END)
TXN_BYTES_MAX = 1 << 28

_READ_BYTES = 1 << 18
_COUNTER_MASK = 0xFFFFFFFF
_ZEROS = bytes(_READ_BYTES)
# What can begin an entry: a 32-bit checksum widened to a long, then a length from 1 to TXN_BYTES_MAX.
_MAYBE_ENTRY = re.compile(rb"(?=\x00{4}(?!\x00{4})[\x00-\xff]{4}(?!\x00{4})[\x00-\x10])")


def log_name(zxid: int) -> str:
    return f"{LOG_PREFIX}.{zxid:x}"


def follows(zxid: int, *, after: int) -> bool:
    """True if no transaction can lie between the two: the next of an epoch, or the first of a later one."""
    return zxid == after + 1 or (zxid & _COUNTER_MASK == 1 and zxid >> 32 > after >> 32)


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """Entries as they lie in a file."""
    parts: list[bytes] = []
    pack = ENTRY_HEAD.pack
    for _, raw in entries:
        parts += (pack(adler32(raw), len(raw)), raw, ENTRY_END)
    return b"".join(parts)


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
