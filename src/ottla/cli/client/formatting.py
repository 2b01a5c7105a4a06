"""Records written by a layout: compiled once into a list of small functions, then run for each record."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ottla.cli.client.layout import (
    ATTRIBUTES_VERB,
    HEADERS_VERB,
    TEXT_VERBS,
    TIME_VERB,
    Layout,
    LayoutError,
    Literal,
    Verb,
)
from ottla.cli.client.record import ClientRecord

Watermarks = Callable[[str, int], tuple[int, int]]
"""Start and high watermark of a partition."""

_Piece = Callable[[ClientRecord], bytes]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_TIMESTAMP = -1


class Formatter:
    """``format`` gives the bytes of one record after the other."""

    def __init__(self, layout: Layout, watermarks: Watermarks | None = None) -> None:
        self._count = 0
        self._watermarks = watermarks
        self._pieces = [self._compile(piece) for piece in layout]

    def format(self, record: ClientRecord) -> bytes:
        self._count += 1
        return b"".join([piece(record) for piece in self._pieces])

    def _compile(self, piece: Literal | Verb) -> _Piece:
        if isinstance(piece, Literal):
            data = piece.data
            return lambda _: data
        if piece.name == HEADERS_VERB:
            inner = Formatter(piece.inner)
            return lambda record: b"".join(
                inner.format(ClientRecord(name.encode(), value)) for name, value in record.headers
            )
        if piece.name in TEXT_VERBS:
            return _text(piece)
        if piece.name == ATTRIBUTES_VERB:
            return lambda record: record.timestamp_type.encode()
        if piece.name == TIME_VERB and piece.modifier == "strftime":
            pattern = piece.argument
            return lambda record: _strftime(record.timestamp, pattern)
        number, write = self._number(piece.name), number_writer(piece.modifier)
        return lambda record: write(number(record))

    def _number(self, name: str) -> Callable[[ClientRecord], int]:
        match name:
            case "T":
                return lambda record: len(record.topic.encode())
            case "K":
                return lambda record: len(record.key or b"")
            case "V":
                return lambda record: len(record.value or b"")
            case "H":
                return lambda record: len(record.headers)
            case "p":
                return lambda record: record.partition
            case "o":
                return lambda record: record.offset
            case "e":
                return lambda record: record.leader_epoch
            case "d":
                return lambda record: NO_TIMESTAMP if record.timestamp is None else record.timestamp
            case "i":
                return lambda _: self._count
        if self._watermarks is None:
            raise LayoutError(f"%{name}: watermarks are not known here")
        watermarks, column = self._watermarks, "[]".index(name)
        return lambda record: watermarks(record.topic, record.partition)[column]


def number_writer(modifier: str) -> Callable[[int], bytes]:
    """How a number is written. What does not fit into its width loses its upper bits."""
    if modifier == "ascii":
        return lambda number: b"%d" % number
    if modifier == "hex":
        return lambda number: b"%x" % (number & (1 << 64) - 1)
    if modifier == "bool":
        return lambda number: b"true" if number else b"false"
    if modifier == "byte":
        return lambda number: bytes((number & 0xFF,))
    kind = modifier.rstrip("0123456789")
    bits = int(modifier[len(kind) :])
    mask = (1 << bits) - 1
    if kind == "hex":
        return lambda number: b"%0*x" % (bits // 4, number & mask)
    if kind == "big":
        return lambda number: (number & mask).to_bytes(bits // 8, "big")
    return lambda number: (number & mask).to_bytes(bits // 8, "little")


def unpack(codes: str, data: bytes) -> bytes:
    """``data`` taken apart by ``codes``; where it does not fit, the output says so."""
    out = bytearray()
    order, at = ">", 0
    for code in codes:
        if code in "<>":
            order = code
        elif code == "x":
            out += b" "
        elif code == "s":
            out += data[at:]
            at = len(data)
        elif code == "$":
            if at < len(data):
                return bytes(out) + b"<%d bytes are left>" % (len(data) - at)
        else:
            size = 1 if code in "c." else struct.calcsize(order + code)
            if at + size > len(data):
                return bytes(out) + b"<%d bytes are missing>" % (at + size - len(data))
            if code in "c.":
                out += data[at : at + 1]
            else:
                (number,) = struct.unpack_from(order + code, data, at)
                out += b"%d" % number
            at += size
    return bytes(out)


def _text(piece: Verb) -> _Piece:
    match piece.modifier:
        case "":
            write: Callable[[bytes], bytes] = bytes
        case "hex":
            write = lambda data: data.hex().encode()  # noqa: E731  one of a table of cases
        case "base64":
            write = b64encode
        case "base64raw":
            write = lambda data: b64encode(data).rstrip(b"=")  # noqa: E731
        case "unpack":
            codes = piece.argument
            write = lambda data: unpack(codes, data)  # noqa: E731
        case _:
            raise LayoutError(
                f"%{piece.name}{{{piece.modifier}}}: a number of bytes says how to read, not how to write"
            )
    match piece.name:
        case "t":
            return lambda record: write(record.topic.encode())
        case "k":
            return lambda record: write(record.key or b"")
    return lambda record: write(record.value or b"")


def _strftime(timestamp_ms: int | None, pattern: str) -> bytes:
    if timestamp_ms is None:
        return b""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).strftime(pattern).encode()
    except (OverflowError, ValueError):
        return str(timestamp_ms).encode()
