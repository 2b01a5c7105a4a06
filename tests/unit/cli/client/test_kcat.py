from __future__ import annotations

import json

import pytest

from ottla.cli.client.kcat import compile_format, envelope, parse_offsets, unescape
from ottla.cli.client.layout import LayoutError
from ottla.cli.client.ranges import END, START, Bound, Kind, Range, RangeError
from ottla.cli.client.record import LOG_APPEND_TIME, ClientRecord

RECORD = ClientRecord(b"k", b"v\xff", (("a", b"1"), ("n", None)), "t", 2, 7, 1000, LOG_APPEND_TIME)


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (r"%t[%p]@%o %k:%s\n", b"t[2]@7 k:v\xff\n"),
        ("%K %S %T", b"1 2 1000"),
        ("%R", b"\0\0\0\2"),
        ("%h", b"a=1,n=NULL"),
        (r"%%\t\r\\\x41\q", b"%\t\r\\Aq"),
    ],
)
def test_formats(form: str, written: bytes) -> None:
    assert compile_format(form, b"")(RECORD) == written


def test_null() -> None:
    assert compile_format("%k %s %K %S %R", b"NULL")(ClientRecord()) == b"NULL NULL -1 -1 \xff\xff\xff\xff"
    assert compile_format("%k %s %K %S", b"NULL")(ClientRecord(b"", b"")) == b"NULL NULL 0 0"


def test_an_unknown_verb_is_refused() -> None:
    with pytest.raises(LayoutError, match="kcat knows"):
        compile_format("%v", b"")


def test_the_envelope() -> None:
    assert json.loads(envelope(RECORD, 3)) == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "tstype": "logappend",
        "ts": 1000,
        "broker": 3,
        "headers": ["a", "1", "n", None],
        "key": "k",
        "payload": "v\ufffd",
    }


@pytest.mark.parametrize(
    ("texts", "at_end", "wanted"),
    [
        ([], False, Range(START)),
        (["beginning"], True, Range(START, END)),
        (["end"], False, Range(END)),
        (["-10"], True, Range(Bound(Kind.BEFORE_END, 10), END)),
        (["10"], False, Range(Bound(Kind.OFFSET, 10))),
        (["s@5", "e@9"], False, Range(Bound(Kind.TIME, 5), Bound(Kind.TIME, 9))),
    ],
)
def test_offsets(texts: list[str], at_end: bool, wanted: Range) -> None:
    assert parse_offsets(texts, stop_at_end=at_end) == wanted


@pytest.mark.parametrize("text", ["stored", "x", "s@x", "1.5", ""])
def test_what_is_no_offset(text: str) -> None:
    with pytest.raises(RangeError):
        parse_offsets([text], stop_at_end=False)


def test_delimiters() -> None:
    assert unescape(r"\n\x00:\t") == b"\n\0:\t"
