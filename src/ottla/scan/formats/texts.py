"""Lines that servers log: the common and combined formats of web servers, and syslog (RFC 5424, RFC 3164).

127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326 "http://from/" "Mozilla/4.08"
<34>1 2003-10-11T22:14:15.003Z host su 123 ID47 [a@1 x="1"] 'su root' failed
<34>Oct 11 22:14:15 host su[123]: 'su root' failed
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa

from ottla.scan.columns import TIMESTAMP
from ottla.scan.formats.base import RowFormat
from ottla.scan.sysloglines import parse_syslog

ACCESS = pa.schema(
    [
        ("host", pa.string()),
        ("ident", pa.string()),
        ("user", pa.string()),
        ("time", TIMESTAMP),
        ("method", pa.string()),
        ("path", pa.string()),
        ("protocol", pa.string()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("referer", pa.string()),
        ("agent", pa.string()),
    ]
)
SYSLOG = pa.schema(
    [
        ("facility", pa.int32()),
        ("severity", pa.int32()),
        ("time", TIMESTAMP),
        ("host", pa.string()),
        ("app", pa.string()),
        ("pid", pa.string()),
        ("msgid", pa.string()),
        ("data", pa.string()),
        ("message", pa.string()),
    ]
)

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_ACCESS = re.compile(
    rf"(\S+) (\S+) (.+?) \[(\d\d)/(\w{{3}})/(\d{{4}}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)\] {_QUOTED} (\d{{3}}) (\d+|-)"
    rf"(?: {_QUOTED} {_QUOTED})?\s*",
    re.ASCII,
)
_REQUEST = re.compile(r"(\S+) (.+?)(?: (HTTP/\S+))?")
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], start=1
    )
}


class AccessFormat(RowFormat):
    """Both formats: the common one has no referer and no agent."""

    name = "access"

    def __init__(self) -> None:
        super().__init__(ACCESS)

    def parse_row(self, value: bytes) -> Sequence[object] | None:
        match = _ACCESS.fullmatch(value.decode("utf-8", "replace"))
        if match is None:
            return None
        host, ident, user, day, month, year, hour, minute, second, sign, off_hours, off_minutes = match.groups()[:12]
        request, status, size, referer, agent = match.groups()[12:]
        away = timedelta(hours=int(off_hours), minutes=int(off_minutes))
        try:
            zone = timezone(-away if sign == "-" else away)
            moment = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=zone)
        except (ValueError, KeyError):
            return None
        parts = _REQUEST.fullmatch(request)
        method, path, protocol = parts.groups() if parts else (None, request, None)
        length = None if size == "-" else int(size)
        return (
            *(_known(text) for text in (host, ident, user)),
            moment,
            method,
            path,
            protocol,
            int(status),
            length,
            _known(referer),
            _known(agent),
        )


class SyslogFormat(RowFormat):
    """Both RFCs; see ``sysloglines``."""

    name = "syslog"

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__(SYSLOG)
        self._now = now

    def parse_row(self, value: bytes) -> Sequence[object] | None:
        return parse_syslog(value, self._now())


def _known(text: str | None) -> str | None:
    return None if text == "-" else text
