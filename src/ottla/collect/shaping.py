"""From what a source has read to records: value, key and headers.

    raw       the value is the line, message or event as it came
    json      the value is an object that says where it came from too:
              {"host": ..., "source": "file", "file": ..., "received": ..., "message": ...}
              a beacon's event stands under "event" in place of "message"; what a syslog message says of itself under "syslog"

Headers say the same in either form: ``source``, ``host``, ``received`` (milliseconds since 1970), ``file`` for files; ``path``,
``user-agent`` and ``referer`` for beacons. A line that was cut has ``piece``, its number, and behind the last one how many there are: 1, 2, 3/3.

With a key field, the key is what the field of that name holds in a value that is a JSON object (``user.id`` is a field of a field).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ottla.collect.batches import Batch, Headers, Positions, Record
from ottla.collect.lines import Line
from ottla.scan.sysloglines import parse_syslog

FILE, STDIN, SYSLOG, HTTP = "file", "stdin", "syslog", "http"
NOWHERE: Positions = {}


class Origin(NamedTuple):
    source: str
    host: str
    """Where it was written, as far as is known: this machine, or who sent it."""
    more: Mapping[str, str] = {}


class Shape(NamedTuple):
    topic: str
    key: tuple[str, ...] = ()
    is_enveloped: bool = False

    def batch(
        self,
        entries: Iterable[tuple[Origin, Sequence[Line]]],
        *,
        received_ms: int,
        positions: Positions = NOWHERE,
    ) -> Batch:
        """What was read of several origins; what they have in common is said once."""
        listed = list(entries)
        common = _headers(listed[0][0]) if listed and all(origin == listed[0][0] for origin, _ in listed) else ()
        records = []
        for origin, lines in listed:
            own = () if common else _headers(origin)
            envelope = _envelope(origin, received_ms) if self.is_enveloped else ""
            records += [self._record(line, own, envelope, origin, received_ms) for line in lines]
        received = ("received", str(received_ms).encode())
        return Batch(self.topic, received_ms, (*common, received), records, positions)

    def _record(self, line: Line, headers: Headers, envelope: str, origin: Origin, received_ms: int) -> Record:
        if line.piece:
            text = f"{line.piece}/{line.piece}" if line.is_last else str(line.piece)
            headers = (*headers, ("piece", text.encode()))
        key = field_of(line.value, self.key) if self.key and not line.piece else None
        value = _enveloped(line.value, envelope, origin, received_ms) if envelope else line.value
        return Record(value, key, headers)


def field_of(value: bytes, path: tuple[str, ...]) -> bytes | None:
    """A field of a JSON object, as text; numbers as they were written. None where there is no such thing."""
    if not value.lstrip().startswith(b"{"):
        return None
    try:
        found = _at(json.loads(value, parse_int=str, parse_float=str), path)
        if isinstance(found, dict | list):
            found = _at(json.loads(value), path)
    except (ValueError, RecursionError):
        return None
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="surrogatepass")


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _headers(origin: Origin) -> Headers:
    return (
        ("source", origin.source.encode()),
        ("host", _bytes(origin.host)),
        *((name, _bytes(value)) for name, value in origin.more.items()),
    )


def _bytes(text: str) -> bytes:
    """Names of files may be any bytes."""
    return text.encode(errors="surrogateescape")


def _envelope(origin: Origin, received_ms: int) -> str:
    """Its beginning, up to what comes in it."""
    moment = datetime.fromtimestamp(received_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields = {"host": origin.host, "source": origin.source, "received": moment, **origin.more}
    return json.dumps({name.replace("-", "_"): _printable(text) for name, text in fields.items()})[:-1]


def _printable(text: str) -> str:
    return _bytes(text).decode(errors="replace")


def _enveloped(value: bytes, envelope: str, origin: Origin, received_ms: int) -> bytes:
    if origin.source == HTTP:
        return envelope.encode() + b', "event": ' + value + b"}"
    parsed = ""
    if origin.source == SYSLOG and (found := parse_syslog(value, _moment(received_ms))) is not None:
        known = {name: each for name, each in found._asdict().items() if each is not None}
        parsed = ', "syslog": ' + json.dumps(known, default=datetime.isoformat)
    try:
        message: object = value.decode()
    except UnicodeDecodeError:
        message = {"base64": base64.b64encode(value).decode()}
    return f'{envelope}, "message": {json.dumps(message)}{parsed}}}'.encode()


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
