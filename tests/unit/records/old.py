"""Messages of magic 0 and 1, as logs of old hold them."""

from __future__ import annotations

import struct
import zlib

from ottla.records import Codec
from ottla.records.codecs import pack


def old_message(
    magic: int,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp: int = 5,
    offset: int = 0,
    key: bytes = b"k",
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", len(key)) + key
    body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


def old_run(
    magic: int, codec: Codec, *, first: int = 100, count: int = 5, timestamp: int = 5, key: bytes = b"k"
) -> bytes:
    """Messages one behind the other, or as one compressed message. A ``%d`` in ``key`` becomes the number of each."""
    relative = codec is not Codec.NONE and magic == 1
    inner = b"".join(
        old_message(
            magic,
            b"v%d" % i,
            timestamp=timestamp + i,
            offset=i if relative else first + i,
            key=key.replace(b"%d", b"%d" % (first + i)),
        )
        for i in range(count)
    )
    if codec is Codec.NONE:
        return inner
    last = count - 1
    return old_message(magic, pack(codec, inner), attributes=codec, timestamp=timestamp + last, offset=first + last)
