"""The format of a transaction log file, and how it is written.

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
cannot be one and says why it stopped; ``find_entry`` tells torn from broken (both in ``logreader``).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import adler32

from ottla.keeper.proto.txns import Entry

LOG_PREFIX: Final = "log"
FILE_HEADER: Final = Struct(">4siq")
LOG_HEADER: Final = FILE_HEADER.pack(b"ZKLG", 2, 0)
ENTRY_HEAD: Final = Struct(">qi")
ENTRY_END: Final = b"B"
ENTRY_OVERHEAD: Final = ENTRY_HEAD.size + len(ENTRY_END)
TXN_BYTES_MAX: Final = 1 << 28

_COUNTER_MASK: Final = 0xFFFFFFFF


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
