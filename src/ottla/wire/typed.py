"""What the typed codecs (``produce``, ``fetch``, ``offsetfetch``) share.

What is made from the table runs anywhere and is right for every message. For those that brokers meet most there is a second
way beside it, typed and compiled, for what nearly every client sends and nearly every answer says. Whatever is out of the
ordinary (a length that cannot be, a tagged field, a record that was refused) is left to the codecs of the table, and so are all
complaints. Both give the same (tests/property/test_wire_typed.py).

It is not the time of a tight loop that counts here: a broker that is woken for every request runs from cold caches, and
there the code made from the table, which the interpreter reads as data, costs several times what it does when it is warm.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64, u8

from ottla.wire.primitives import STRING_BYTES_MAX

SHORT: Final = 2
LONG: Final = 4
"""Bytes of a length in versions that are not flexible: of a string, of anything else."""
_UNFIT: Final = -2
"""A length that is none."""


def read_length(buf: bytes, at: i64, fixed: i64, flexible: bool) -> tuple[i64, i64]:
    """A length of ``fixed`` bytes, or a varint that is one more; and where what it counts begins. Null is -1."""
    if not flexible:
        if fixed == SHORT:
            return i64(read_i16_be(buf, at)), at + 2
        return i64(read_i32_be(buf, at)), at + 4
    value: i64 = 0
    shift: i64 = 0
    while shift <= 28:
        byte: i64 = buf[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, at
        shift += 7
    return _UNFIT, at


def is_string(buf: bytes, at: i64, size: i64) -> bool:
    """Whether there can be a string of this size."""
    return 0 <= size <= STRING_BYTES_MAX and size <= len(buf) - at


def write_length(out: BytesWriter, size: i64, fixed: i64, flexible: bool) -> None:
    if not flexible:
        if fixed == SHORT:
            write_i16_be(out, i16(size))
        else:
            write_i32_be(out, i32(size))
        return
    value = size + 1
    while value > 0x7F:
        out.append(u8(value & 0x7F | 0x80))
        value >>= 7
    out.append(u8(value))


def write_string(out: BytesWriter, text: str, flexible: bool) -> None:
    data = text.encode()
    write_length(out, len(data), SHORT, flexible)
    out.write(data)


def begun(correlation_id: int, flexible: bool) -> BytesWriter:
    """The frame of a response up to its body. Its length is written by ``finish``."""
    out = BytesWriter()
    write_i32_be(out, 0)
    write_i32_be(out, correlation_id)
    if flexible:
        out.append(0)
    return out


def finish(out: BytesWriter, behind: i64 = 0) -> bytes:
    """The first part of a frame, or all of it; ``behind`` is how many bytes follow."""
    size: i64 = len(out) - 4 + behind
    out[0] = u8(size >> 24 & 0xFF)
    out[1] = u8(size >> 16 & 0xFF)
    out[2] = u8(size >> 8 & 0xFF)
    out[3] = u8(size & 0xFF)
    return out.getvalue()
