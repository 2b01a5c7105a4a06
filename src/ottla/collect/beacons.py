"""What web beacons say: from a request to events, each a JSON object in bytes.

    POST  application/json, text/plain or nothing said      an object, an array of objects, or objects one a line
          application/x-ndjson, application/jsonl           objects, one a line
          application/x-www-form-urlencoded                 the fields as one object
    GET   /anything.gif?a=1&b=2                             the query as one object; the answer is an image of one pixel
          /anything?a=1&b=2                                 likewise, without an answer

An event goes on as its sender wrote it, digits and all, only without line ends; it is read to know that it is one. A field that
occurs more than once becomes a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import parse_qsl

from ottla.base.errors import Error

EVENTS_MAX = 10_000
FIELDS_MAX = 1000
PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
_OBJECTS = ("application/json", "text/plain", "")
_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_FORM = "application/x-www-form-urlencoded"
_BLANK = re.compile(r"[ \t\r\n]*")


class BeaconError(Error):
    """A request that cannot be taken, and the status to say so with."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def from_query(query: str) -> list[bytes]:
    return [_fields(query)] if query else []


def from_body(content_type: str, body: bytes) -> list[bytes]:
    kind = content_type.partition(";")[0].strip().lower()
    try:
        text = body.decode()
        if kind == _FORM:
            return [_fields(text)]
        if kind not in (*_OBJECTS, *_LINES):
            raise BeaconError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{kind} is not JSON, JSON lines or a form")
        events = []
        for event in _array(text) if text.lstrip().startswith("[") and kind not in _LINES else _sequence(text):
            events.append(event)
            if len(events) > EVENTS_MAX:
                raise BeaconError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {EVENTS_MAX} events at once")
        return events
    except RecursionError:
        raise BeaconError(HTTPStatus.BAD_REQUEST, "nested too deeply") from None
    except ValueError as error:
        raise BeaconError(HTTPStatus.BAD_REQUEST, f"not JSON: {error}") from None


def _fields(text: str) -> bytes:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise BeaconError(HTTPStatus.BAD_REQUEST, str(error)) from None
    fields: dict[str, str | list[str]] = {}
    for name, value in pairs:
        known = fields.get(name)
        if known is None:
            fields[name] = value
        elif isinstance(known, list):
            known.append(value)
        else:
            fields[name] = [known, value]
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def _sequence(text: str) -> Iterator[bytes]:
    """Objects behind each other; a line end between them is what they need at least, and what one has."""
    at = _skip(text, 0)
    while at < len(text):
        event, at = _object(text, at)
        yield event
        at = _skip(text, at)


def _array(text: str) -> Iterator[bytes]:
    at = _skip(text, text.index("[") + 1)
    if text[at : at + 1] != "]":
        while True:
            event, at = _object(text, at)
            yield event
            at = _skip(text, at)
            if text[at : at + 1] != ",":
                break
            at = _skip(text, at + 1)
    if text[at:].strip() != "]":
        raise ValueError(f"the array does not end where it should, at {at}")


def _object(text: str, at: int) -> tuple[bytes, int]:
    if text[at : at + 1] != "{":
        raise ValueError(f"an event is an object, which begins with a brace; at {at} is {text[at : at + 10]!r}")
    _, end = _DECODER.raw_decode(text, at)
    return text[at:end].replace("\r", " ").replace("\n", " ").encode(), end


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
