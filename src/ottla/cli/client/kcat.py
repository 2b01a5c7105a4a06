r"""kcat's ways of writing and naming things, for ``ottla cat``: format strings, the JSON envelope, offsets.

%s value  %S its length, -1 for null  %R its length as 4 bytes  %k key  %K its length
%t topic  %p partition  %o offset  %T timestamp  %h headers as k=v,...  \n \r \t \xNN  %%

beginning, end, n, -n, s@T and e@T     from where to where, T in milliseconds
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence

from ottla.cli.client.layout import LayoutError
from ottla.cli.client.ranges import END, START, Bound, Kind, Range, RangeError
from ottla.cli.client.record import CREATE_TIME, LOG_APPEND_TIME, ClientRecord

Write = Callable[[ClientRecord], bytes]

_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{1,2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_SLASHES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
_TYPES = {CREATE_TIME: "create", LOG_APPEND_TIME: "logappend"}


def unescape(text: str) -> bytes:
    r"""A delimiter, with \n, \t and \xNN in it."""
    return b"".join(_literal(match) for match in _TOKEN.finditer(text))


def compile_format(text: str, null: bytes) -> Write:
    """What writes a record by kcat's format; ``null`` stands for keys and values that are null."""
    pieces: list[Write] = []
    for match in _TOKEN.finditer(text):
        if match[1] is None or match[1] == "%":
            pieces.append(_constant(b"%" if match[1] else _literal(match)))
        else:
            pieces.append(_verb(match[1], null))
    return lambda record: b"".join([piece(record) for piece in pieces])


def wants_headers(text: str) -> bool:
    return any(match[1] == "h" for match in _TOKEN.finditer(text))


def envelope(record: ClientRecord, broker: int) -> bytes:
    """One line of JSON, as ``-J`` has it. Bytes that are no UTF-8 become U+FFFD, as kcat has no other way."""
    document: dict[str, object] = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    if record.timestamp is not None:
        document |= {"tstype": _TYPES.get(record.timestamp_type, "unknown"), "ts": record.timestamp}
    document["broker"] = broker
    if record.headers:
        document["headers"] = [part for name, value in record.headers for part in (name, _text(value))]
    document |= {"key": _text(record.key), "payload": _text(record.value)}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def parse_offsets(texts: Sequence[str], *, stop_at_end: bool) -> Range:
    """The range of all ``-o`` together, up to the end of now if that is asked for."""
    start, stop = START, END if stop_at_end else None
    for text in texts:
        if text.startswith("e@"):
            stop = Bound(Kind.TIME, _milliseconds(text[2:]))
        elif text.startswith("s@"):
            start = Bound(Kind.TIME, _milliseconds(text[2:]))
        elif text in ("beginning", "start"):
            start = START
        elif text == "end":
            start = END
        elif text.lstrip("-").isdecimal() and text.isascii():
            number = int(text)
            start = Bound(Kind.OFFSET, number) if number >= 0 else Bound(Kind.BEFORE_END, -number)
        else:
            raise RangeError(f"{text!r} is no offset: give beginning, end, n, -n, s@MS or e@MS")
    return Range(start, stop)


def _milliseconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise RangeError(f"{text!r} is no number of milliseconds")
    return int(text)


def _verb(name: str, null: bytes) -> Write:
    match name:
        case "s":
            return lambda record: record.value or null
        case "S":
            return lambda record: b"%d" % _length(record.value)
        case "R":
            return lambda record: struct.pack(">i", _length(record.value))
        case "k":
            return lambda record: record.key or null
        case "K":
            return lambda record: b"%d" % _length(record.key)
        case "t":
            return lambda record: record.topic.encode()
        case "p":
            return lambda record: b"%d" % record.partition
        case "o":
            return lambda record: b"%d" % record.offset
        case "T":
            return lambda record: b"%d" % (-1 if record.timestamp is None else record.timestamp)
        case "h":
            return lambda record: b",".join(
                name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers
            )
    raise LayoutError(f"%{name}: kcat knows %s %S %R %k %K %t %p %o %T %h")


def _constant(data: bytes) -> Write:
    return lambda _: data


def _literal(match: re.Match[str]) -> bytes:
    if match[2] is not None:
        return bytes((int(match[2], 16),))
    if match[3] is not None:
        return _SLASHES.get(match[3]) or match[3].encode()
    return match[0].encode()


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
