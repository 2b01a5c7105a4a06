from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ottla.scan.errors import OptionError
from ottla.scan.formats.base import Decoding, Format
from ottla.scan.formats.opening import infer_format, open_format
from ottla.scan.formats.texts import AccessFormat, SyslogFormat


def rows(form: Format, *values: bytes | None) -> tuple[list[dict[str, object]], list[bool]]:
    found: Decoding = form.decode(pa.array(values, pa.binary()), form.schema.names)
    marks = [False] * len(values) if found.malformed is None else found.malformed.to_pylist()
    return pa.table(found.columns).to_pylist(), marks


def test_access_logs_in_both_formats() -> None:
    common = b'127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a%20b.gif?x="y" HTTP/1.0" 200 2326'
    combined = rb'::1 - - [29/Feb/2024:00:00:00 +0000] "-" 408 - "-" "Agent \"quoted\" 1.0"'
    request = b'h i some user [01/Jan/2024:00:00:00 +0100] "POST /x HTTP/1.1" 500 0 "http://from/" "-"'
    found, marks = rows(
        AccessFormat(), common.replace(b'?x="y"', b""), combined, request, b"nothing of it", None, common
    )
    assert marks == [False, False, False, True, False, True]
    assert found[0]["time"] == datetime(2000, 10, 10, 20, 55, 36, tzinfo=UTC)
    assert (found[0]["user"], found[0]["method"], found[0]["path"]) == ("frank", "GET", "/a%20b.gif")
    assert (found[0]["status"], found[0]["bytes"], found[0]["agent"]) == (200, 2326, None)
    assert (found[1]["method"], found[1]["path"], found[1]["bytes"]) == (None, "-", None)
    assert found[1]["agent"] == r"Agent \"quoted\" 1.0"
    assert (found[2]["user"], found[2]["referer"], found[2]["agent"]) == ("some user", "http://from/", None)


def test_syslog_of_both_rfcs() -> None:
    now = datetime(2024, 3, 1, tzinfo=UTC)
    found, marks = rows(
        SyslogFormat(lambda: now),
        b'<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 ID47 [a@1 x="1\\]"][b y="]"] hello',
        b"<34>1 - - su - - - \xef\xbb\xbf'su root' failed",
        b"<13>Feb  5 17:32:18 10.0.0.99 app[42]: did something\n",
        b"<13>Dec 31 23:59:59 host cron: last year",
        b"<999>1 - - - - - -",
        b"<13>Feb 30 00:00:00 host app: no such day",
        b"plain",
    )
    assert marks == [False, False, False, False, True, True, True]
    assert (found[0]["facility"], found[0]["severity"], found[0]["app"]) == (20, 5, "myproc")
    assert found[0]["time"] == datetime(2003, 8, 24, 12, 14, 15, 3, tzinfo=UTC)
    assert found[0]["data"] == '[a@1 x="1\\]"][b y="]"]'
    assert (found[1]["time"], found[1]["host"], found[1]["message"]) == (None, None, "'su root' failed")
    assert (found[2]["pid"], found[2]["message"]) == ("42", "did something")
    assert found[2]["time"] == datetime(2024, 2, 5, 17, 32, 18, tzinfo=UTC)
    assert found[3]["time"] == datetime(2023, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_lines_of_csv() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    form = open_format("csv", schema)
    assert form is not None
    found, marks = rows(form, b'1,"x, y"', b"2,", None, b"no number,x", b"3", b"", b"4,a\n5,b", b"6,z")
    assert marks == [False, False, False, True, True, True, True, False]
    assert [row["a"] for row in found] == [1, 2, None, None, None, None, None, 6]
    assert [row["b"] for row in found] == ["x, y", None, None, None, None, None, None, "z"]
    guessed = infer_format("csv", [b"1;x;2.5", b"2;y;3", None], {"valueDelimiter": ";", "valueHeader": "n;s;f"})
    assert guessed.schema == pa.schema([("n", pa.int64()), ("s", pa.string()), ("f", pa.float64())])


def test_what_is_not_known_is_told() -> None:
    with pytest.raises(OptionError, match="there is no format xml"):
        open_format("xml")
    with pytest.raises(OptionError, match="no JSON objects"):
        infer_format("json", [b"a"])
    with pytest.raises(OptionError, match="no records"):
        infer_format("json", [])
