from __future__ import annotations

import json

import pytest

from ottla.collect.batches import Batch, Record
from ottla.collect.lines import Line
from ottla.collect.progress import State, line, summary
from ottla.collect.shaping import FILE, HTTP, STDIN, SYSLOG, Origin, Shape, field_of

NOW_MS = 1_700_000_000_123
RECEIVED = ("received", b"1700000000123")


def test_raw_values_with_headers_said_once() -> None:
    shape = Shape("logs")
    origin = Origin(FILE, "here", {"file": "/x/\udcff.log"})
    lines = [Line(b"one"), Line(b"tw", 1, is_last=False), Line(b"o", 2)]
    assert shape.batch([(origin, lines)], received_ms=NOW_MS, positions={"1:2": {"offset": 7}}) == Batch(
        "logs",
        NOW_MS,
        (("source", b"file"), ("host", b"here"), ("file", b"/x/\xff.log"), RECEIVED),
        [Record(b"one"), Record(b"tw", None, (("piece", b"1"),)), Record(b"o", None, (("piece", b"2/2"),))],
        {"1:2": {"offset": 7}},
    )


def test_who_sent_what_is_told_for_each_when_they_are_many() -> None:
    entries = [(Origin(SYSLOG, host), [Line(b"x")]) for host in ("10.0.0.1", "10.0.0.2")]
    batch = Shape("logs").batch(entries, received_ms=NOW_MS)
    assert batch.headers == (RECEIVED,)
    assert [record.headers for record in batch.records] == [
        (("source", b"syslog"), ("host", b"10.0.0.1")),
        (("source", b"syslog"), ("host", b"10.0.0.2")),
    ]


def enveloped(origin: Origin, value: bytes) -> dict[str, object]:
    [record] = Shape("t", is_enveloped=True).batch([(origin, [Line(value)])], received_ms=NOW_MS).records
    found: dict[str, object] = json.loads(record.value)
    return found


def test_envelopes() -> None:
    received = "2023-11-14T22:13:20.123Z"
    assert enveloped(Origin(STDIN, "h"), b'a "b"') == {
        "host": "h", "source": "stdin", "received": received, "message": 'a "b"',
    }  # fmt: skip
    assert enveloped(Origin(STDIN, "h"), b"\xff")["message"] == {"base64": "/w=="}
    beacon = enveloped(Origin(HTTP, "h", {"path": "/e", "user-agent": "x"}), b'{"a": 1.5}')
    assert (beacon["event"], beacon["user_agent"], beacon["path"]) == ({"a": 1.5}, "x", "/e")
    message = enveloped(Origin(SYSLOG, "10.0.0.1"), b"<34>1 2003-10-11T22:14:15.003Z host su 123 ID47 - failed")
    assert message["syslog"] == {
        "facility": 4, "severity": 2, "time": "2003-10-11T22:14:15.003000+00:00", "host": "host", "app": "su",
        "pid": "123", "msgid": "ID47", "message": "failed",
    }  # fmt: skip
    assert "syslog" not in enveloped(Origin(SYSLOG, "10.0.0.1"), b"just text")


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'{"user": {"id": "x"}}', b"x"),
        (b' {"user": {"id": 1.10}}', b"1.10"),
        (b'{"user": {"id": true}}', b"true"),
        (b'{"user": {"id": {"a":1}}}', b'{"a":1}'),
        (b'{"user": {"id": null}}', None),
        (b'{"user": 7}', None),
        (b"{}", None),
        (b"{broken", None),
        (b'["user"]', None),
        (b"text", None),
        (b'{"user":' + b"[" * 100_000, None),
    ],
)
def test_the_key_is_a_field(value: bytes, key: bytes | None) -> None:
    assert field_of(value, ("user", "id")) == key
    [record] = Shape("t", ("user", "id")).batch([(Origin(STDIN, "h"), [Line(value)])], received_ms=1).records
    assert (record.value, record.key) == (value, key)


def test_progress_in_a_line() -> None:
    before, now = State(10, 100), State(30, 1_500_000, 20, 1, 2, 3, 4, 5000, 6, 7000)
    assert line(before, now, 2.0) == (
        "30 records, 1.5 MB  10/s  20 delivered  spool 5.0 kB  6 files, 7.0 kB behind  2 refused  1 rejected  3 errors"
    )
    assert summary(now) == "30 collected, 20 delivered, 1 rejected, 5.0 kB stay in the spool until next time"
    assert summary(State(3, 9, 3, spool_bytes=77)) == "3 collected, 3 delivered"
