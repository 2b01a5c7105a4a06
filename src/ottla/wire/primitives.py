"""What the compiled codecs call when the short way does not do: long varints, tags, complaints.

A varint (KIP-482) holds seven bits a byte, lowest first; the top bit says that another byte follows. Codecs deal with
the first byte themselves, which is all there is to most lengths, and come here when it is above 127.
"""

from __future__ import annotations

from typing import Final

from ottla.wire.errors import DecodeError, EncodeError
from ottla.wire.message import Buffer

STRING_BYTES_MAX: Final = 32767
"""A string is that long at most, even where its length is a varint, as in Kafka."""
TAGS_MAX: Final = 64
"""Tagged fields of one structure: passing over millions of them would keep everybody waiting."""

SHORT: Final = tuple(bytes([number]) for number in range(128))
"""The varints of one byte."""


def varint_after(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The varint whose ``first`` byte, above 127, was before ``pos``; and the position behind it."""
    byte = buf[pos]
    if byte < 128:
        return first & 0x7F | byte << 7, pos + 1
    value = first & 0x7F | (byte & 0x7F) << 7
    for shift in (14, 21, 28):
        pos += 1
        byte = buf[pos]
        if byte < 128:
            return value | byte << shift, pos + 1
        value |= (byte & 0x7F) << shift
    raise DecodeError("a varint of more than five bytes")


def string_varint_after(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    value, pos = varint_after(buf, pos, first)
    if value > STRING_BYTES_MAX + 1:
        raise DecodeError(f"a string of {value - 1} bytes, where {STRING_BYTES_MAX} is the most")
    return value, pos


def tag_count(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """How many tagged fields follow; each takes two bytes at least, and nobody has ever defined more than a few."""
    if first > 127:
        first, pos = varint_after(buf, pos, first)
    if first > TAGS_MAX:
        raise DecodeError(f"{first} tagged fields, where {TAGS_MAX} are the most")
    if first * 2 > len(buf) - pos:
        raise DecodeError(f"{first} tagged fields in {len(buf) - pos} bytes")
    return first, pos


def tag_header(buf: Buffer, pos: int) -> tuple[int, int, int]:
    """Tag, the position of its value, and the position behind that."""
    tag = buf[pos]
    pos += 1
    if tag > 127:
        tag, pos = varint_after(buf, pos, tag)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_after(buf, pos, size)
    if size > len(buf) - pos:
        raise overrun("a tagged field", size, len(buf) - pos)
    return tag, pos, pos + size


def skip_tags(buf: Buffer, pos: int, first: int) -> int:
    """Passes over tagged fields that nobody here knows; ``first`` is the first byte of their count."""
    count, pos = tag_count(buf, pos, first)
    for _ in range(count):
        pos = tag_header(buf, pos)[2]
    return pos


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def string_varint(value: int) -> bytes:
    if value > STRING_BYTES_MAX + 1:
        raise EncodeError(f"a string of {value - 1} bytes, where {STRING_BYTES_MAX} is the most")
    return varint(value)


def overrun(what: str, size: int, rest: int) -> DecodeError:
    return DecodeError(f"{what} claims a length of {size} with {rest} bytes left")


def unknown(what: str) -> EncodeError:
    return EncodeError(f"{what} is set, which this version cannot carry")
