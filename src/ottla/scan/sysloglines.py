"""Lines of syslog taken apart: RFC 5424, and RFC 3164 as it is found.

<34>1 2003-10-11T22:14:15.003Z host su 123 ID47 [a@1 x="1"] 'su root' failed
<34>Oct 11 22:14:15 host su[123]: 'su root' failed
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_RFC5424 = re.compile(
    r"<(\d{1,3})>1 (\S+) (\S+) (\S+) (\S+) (\S+) (-|(?:\[(?:[^\]\\\"]|\\.|\"(?:[^\"\\]|\\.)*\")*\])+)(?: \ufeff?(.*))?",
    re.DOTALL,
)
_RFC3164 = re.compile(
    r"<(\d{1,3})>(\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\S+) ([^\s:\[]+)(?:\[([^\]]*)\])?:? ?(.*)", re.DOTALL
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], start=1
    )
}
_PRIORITY_MAX = 191


class SyslogLine(NamedTuple):
    facility: int
    severity: int
    time: datetime | None
    host: str | None
    app: str | None
    pid: str | None
    msgid: str | None
    data: str | None
    message: str | None


def parse_syslog(value: bytes, now: datetime) -> SyslogLine | None:
    """None for what is of neither kind. The older has no year: it is taken to be the latest that does not lie in the future."""
    text = value.decode("utf-8", "replace").rstrip("\n")
    try:
        return _rfc5424(text) or _rfc3164(text, now)
    except (ValueError, KeyError):
        return None


def _rfc3164(text: str, now: datetime) -> SyslogLine | None:
    match = _RFC3164.fullmatch(text)
    if match is None or int(match[1]) > _PRIORITY_MAX:
        return None
    priority, month, day, hour, minute, second, host, app, pid, message = match.groups()
    parts = (_MONTHS[month], int(day), int(hour), int(minute), int(second))
    moment = datetime(now.year, *parts, tzinfo=UTC)
    if moment > now + timedelta(days=1):
        moment = datetime(now.year - 1, *parts, tzinfo=UTC)
    number = int(priority)
    return SyslogLine(number >> 3, number & 7, moment, host, app, pid, None, None, message)


def _rfc5424(text: str) -> SyslogLine | None:
    match = _RFC5424.fullmatch(text)
    if match is None or int(match[1]) > _PRIORITY_MAX:
        return None
    priority, moment, *rest = match.groups()
    when = None if moment == "-" else datetime.fromisoformat(moment)
    if when is not None and when.tzinfo is None:
        return None
    number = int(priority)
    host, app, pid, msgid, data = (None if part == "-" else part for part in rest[:5])
    return SyslogLine(number >> 3, number & 7, when, host, app, pid, msgid, data, rest[5])
