"""Records out of a stream of bytes: line by line, JSON line by JSON line, or by a layout.

Whatever the input claims or lacks, no more than the limit is held in memory: a line that does not end and a length that is
too large are refused as soon as that is plain. Every reader yields records until the input ends, and raises
``RecordInputError`` at the first that is none.

By a layout, a text verb whose length verb stands before it takes that many bytes, one with ``{N}`` takes N, any other ends
where the literal behind it starts. ``%h{...}`` is read as many times as ``%H`` before it said. The last literal of the layout
may be missing at the end of the input, as the newline of a last line often is.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Protocol

from ottla.cli.client.jsonrecord import parse_line
from ottla.cli.client.layout import (
    HEADERS_VERB,
    LENGTH_VERBS,
    TEXT_VERBS,
    TIME_VERB,
    Layout,
    LayoutError,
    Literal,
    Verb,
)
from ottla.cli.client.record import ClientRecord, RecordInputError

_CHUNK_BYTES = 64 << 10
_JSON_FACTOR = 8
"""A byte takes up to six in JSON, and there is more than the value in a line."""
_INTEGER = re.compile(rb"-?\d{1,19}", re.ASCII)
_HEADERS_MAX = 100_000
_UNREADABLE = "i[]a"


class Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Source:
    """A stream with a look ahead of at most ``limit`` bytes and a chunk."""

    def __init__(self, stream: Readable, limit: int) -> None:
        self.limit = limit
        self._stream = stream
        self._buffer = bytearray()
        self._ended = False

    def at_end(self) -> bool:
        return not self._buffer and not self._more()

    def until(self, delimiter: bytes, *, may_end: bool) -> bytes:
        """Up to ``delimiter``, which is passed; with ``may_end`` the end of the input will do as well."""
        searched = 0
        while (found := self._buffer.find(delimiter, searched)) < 0:
            searched = max(len(self._buffer) - len(delimiter) + 1, 0)
            if searched > self.limit:
                raise RecordInputError(f"more than {self.limit} bytes without {_quoted(delimiter)} in them")
            if not self._more():
                if not may_end:
                    raise RecordInputError(f"the input ends where {_quoted(delimiter)} was to come")
                return self._take(len(self._buffer))
        if found > self.limit:
            raise RecordInputError(f"{found} bytes are more than the {self.limit} that a record may have")
        data = self._take(found)
        self._take(len(delimiter))
        return data

    def exactly(self, size: int) -> bytes:
        if not 0 <= size <= self.limit:
            raise RecordInputError(f"a length of {size} bytes; a record may have {self.limit}")
        while len(self._buffer) < size:
            if not self._more():
                raise RecordInputError(f"the input ends {size - len(self._buffer)} bytes too early")
        return self._take(size)

    def rest(self) -> bytes:
        while len(self._buffer) <= self.limit and self._more():
            pass
        if len(self._buffer) > self.limit:
            raise RecordInputError(f"more than the {self.limit} bytes that a record may have")
        return self._take(len(self._buffer))

    def integer(self) -> int:
        while (len(self._buffer) < 21) and self._more():
            pass
        match = _INTEGER.match(self._buffer)
        if match is None:
            raise RecordInputError(f"{_quoted(bytes(self._buffer[:10]))} where a number was to come")
        return int(self._take(match.end()))

    def literal(self, data: bytes, *, may_end: bool) -> None:
        while len(self._buffer) < len(data):
            if not self._more():
                break
        found = bytes(self._buffer[: len(data)])
        if may_end and not found:
            return
        if found != data:
            raise RecordInputError(f"{_quoted(found)} where {_quoted(data)} was to come")
        self._take(len(data))

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _more(self) -> bool:
        if not self._ended:
            chunk = self._stream.read1(_CHUNK_BYTES)
            self._buffer += chunk
            self._ended = not chunk
        return not self._ended


def read_lines(stream: Readable, *, limit: int, key_delimiter: bytes = b"") -> Iterator[ClientRecord]:
    """A value in each line, and its key before the delimiter if there is to be one."""
    source = Source(stream, limit)
    while not source.at_end():
        yield line_record(source.until(b"\n", may_end=True), key_delimiter)


def line_record(line: bytes, key_delimiter: bytes) -> ClientRecord:
    if not key_delimiter:
        return ClientRecord(value=line)
    key, found, value = line.partition(key_delimiter)
    if not found:
        raise RecordInputError(
            f"no {_quoted(key_delimiter)} in the line, so there is no telling the key from the value"
        )
    return ClientRecord(key, value)


def read_json_lines(stream: Readable, *, limit: int) -> Iterator[ClientRecord]:
    source = Source(stream, limit * _JSON_FACTOR)
    while not source.at_end():
        line = source.until(b"\n", may_end=True)
        if line.strip():
            yield parse_line(line)


def read_by_layout(layout: Layout, stream: Readable, *, limit: int) -> Iterator[ClientRecord]:
    check_readable(layout)
    source = Source(stream, limit)
    while not source.at_end():
        yield _LayoutPass(source).read(layout)


def check_readable(layout: Layout) -> None:
    """Refuse a layout by which nobody could tell where a part ends."""
    _check_pieces(layout)
    if not any(isinstance(piece, Verb) for piece in layout):
        raise LayoutError("nothing of a record is in this format; a line is %v\\n")


def _check_pieces(layout: Layout) -> None:
    seen = ""
    for number, piece in enumerate(layout):
        if isinstance(piece, Literal):
            continue
        if piece.name in _UNREADABLE or piece.modifier in ("unpack", "strftime", "bool"):
            raise LayoutError(f"%{piece.name}{{{piece.modifier}}} can be written but not read")
        if piece.name not in TEXT_VERBS and piece.modifier == "hex":
            raise LayoutError(f"%{piece.name}{{hex}}: nobody can tell where it ends; give hex64, hex32, hex16 or hex8")
        if piece.name == HEADERS_VERB:
            if "H" not in seen:
                raise LayoutError("%h{...} needs %H before it: how many headers are to be read")
            _check_pieces(piece.inner)
        ends = piece.name in TEXT_VERBS and not piece.modifier.isdigit() and piece.name.upper() not in seen
        behind = layout[number + 1] if number + 1 < len(layout) else None
        if ends and isinstance(behind, Verb):
            raise LayoutError(f"nothing between %{piece.name} and %{behind.name} says where %{piece.name} ends")
        seen += piece.name


class _LayoutPass:
    """One record on its way out of the input."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lengths: dict[str, int] = {}
        self._texts: dict[str, bytes] = {}
        self._numbers: dict[str, int] = {}
        self._headers: list[tuple[str, bytes | None]] = []

    def read(self, layout: Layout, *, last: bool = True) -> ClientRecord:
        number = 0
        while number < len(layout):
            piece = layout[number]
            if isinstance(piece, Literal):
                self._source.literal(piece.data, may_end=last and number == len(layout) - 1)
            elif piece.name in TEXT_VERBS:
                number += self._read_text(piece, layout, number, last=last)
            elif piece.name == HEADERS_VERB:
                self._read_headers(piece)
            elif piece.name in LENGTH_VERBS:
                self._lengths[piece.name.lower()] = self._read_number(piece.modifier)
            else:
                self._numbers[piece.name] = self._read_number(piece.modifier)
                if piece.name == TIME_VERB and piece.modifier.endswith("64") and self._numbers[piece.name] >> 63:
                    self._numbers[piece.name] -= 1 << 64  # before 1970
            number += 1
        return ClientRecord(
            key=self._texts.get("k"),
            value=self._texts.get("v"),
            headers=tuple(self._headers),
            topic=_utf8(self._texts.get("t", b""), "a topic"),
            partition=self._numbers.get("p", -1),
            offset=self._numbers.get("o", -1),
            timestamp=self._numbers.get("d"),
            leader_epoch=self._numbers.get("e", -1),
        )

    def _read_text(self, verb: Verb, layout: Layout, number: int, *, last: bool) -> int:
        """Read one text; how many pieces of the layout that took besides its own."""
        taken = 0
        if verb.modifier.isdigit():
            data = self._source.exactly(int(verb.modifier))
        elif verb.name in self._lengths:
            data = self._source.exactly(self._lengths[verb.name])
        elif number + 1 < len(layout):
            behind = layout[number + 1]
            assert isinstance(behind, Literal), "check_readable saw to it"
            data = self._source.until(behind.data, may_end=last and number + 2 == len(layout))
            taken = 1
        else:
            data = self._source.rest()
        self._texts[verb.name] = _DECODERS.get(verb.modifier, bytes)(data)
        return taken

    def _read_headers(self, verb: Verb) -> None:
        count = self._numbers["H"]
        if not 0 <= count <= _HEADERS_MAX:
            raise RecordInputError(f"{count} headers; a record may have {_HEADERS_MAX}")
        for _ in range(count):
            header = _LayoutPass(self._source).read(verb.inner, last=False)
            self._headers.append((_utf8(header.key or b"", "the key of a header"), header.value))

    def _read_number(self, modifier: str) -> int:
        if modifier == "ascii":
            return self._source.integer()
        if modifier == "byte":
            return self._source.exactly(1)[0]
        kind = modifier.rstrip("0123456789")
        if kind in ("big", "little"):
            data = self._source.exactly(int(modifier[len(kind) :]) // 8)
            return int.from_bytes(data, "big" if kind == "big" else "little")
        digits = self._source.exactly(int(modifier[3:]) // 4)
        try:
            return int(digits, 16)
        except ValueError:
            raise RecordInputError(f"{_quoted(digits)} is no hex number") from None


def _quoted(data: bytes) -> str:
    """As Python writes bytes, without the letter that says so."""
    return repr(data)[1:]


def _hex(data: bytes) -> bytes:
    try:
        return binascii.unhexlify(data)
    except binascii.Error:
        raise RecordInputError(f"{_quoted(data[:40])} is no hex") from None


def _base64(data: bytes) -> bytes:
    try:
        return b64decode(data + b"=" * (-len(data) % 4), validate=True)
    except binascii.Error:
        raise RecordInputError(f"{_quoted(data[:40])} is no base64") from None


_DECODERS: dict[str, Callable[[bytes], bytes]] = {"hex": _hex, "base64": _base64, "base64raw": _base64}


def _utf8(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RecordInputError(f"{what} that is no UTF-8: {_quoted(data[:40])}") from None
