from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.client.formatting import Formatter, number_writer, unpack
from ottla.cli.client.layout import LayoutError, Literal, Verb, parse_layout
from ottla.cli.client.reading import check_readable, read_by_layout
from ottla.cli.client.record import CREATE_TIME, ClientRecord, RecordInputError

RECORD = ClientRecord(
    key=b"key",
    value=b"\x00\x01va",
    headers=(("a", b"1"), ("b", None)),
    topic="töpic",
    partition=3,
    offset=258,
    timestamp=1_700_000_000_123,
    timestamp_type=CREATE_TIME,
    leader_epoch=7,
)


def formatted(layout: str, record: ClientRecord = RECORD) -> bytes:
    return Formatter(parse_layout(layout), lambda _topic, _partition: (11, 22)).format(record)


@pytest.mark.parametrize(
    ("layout", "written"),
    [
        ("%t %p %o %e", "töpic 3 258 7".encode()),
        ("%T %K %V %H", b"6 3 4 2"),
        ("%k|%v", b"key|\x00\x01va"),
        ("%k{hex} %k{base64} %v{base64} %v{base64raw}", b"6b6579 a2V5 AAF2YQ== AAF2YQ"),
        ("%v{unpack[Hxs]}", b"1 va"),
        ("%v{unpack{<H>H$}}", b"256" + b"30305"),
        ("%v{unpack##I##}", b"95841"),
        ("%v{unpack[bb$]}", b"01<2 bytes are left>"),
        ("%k{unpack[q]}", b"<5 bytes are missing>"),
        ("%v{unpack[xBBc.]}", b" 01va"),
        ("%o{hex64} %o{hex32} %o{hex16} %o{hex8} %o{hex4} %o{hex}", b"0000000000000102 00000102 0102 02 2 102"),
        ("%o{big16}%o{little16}%o{big8}%o{byte}", b"\x01\x02\x02\x01\x02\x02"),
        ("%o{big64}", struct.pack(">q", 258)),
        ("%o{little32}", struct.pack("<i", 258)),
        ("%o{bool} %o{ascii}", b"true 258"),
        ("%d %d{hex32} %d{strftime[%F %T]}", b"1700000000123 cfe5687b 2023-11-14 22:13:20"),
        ("%d{strftime##[%Y]##}", b"[2023]"),
        ("%H %h{%k=%v;}", b"2 a=1;b=;"),
        ("%h{<%K%k%V%v{hex}%}>}", b"<1a131}><1b0}>"),
        ("%a{timestamp-type}", b"CreateTime"),
        ("%[ %]", b"11 22"),
        (r"%% %{ %} \t\n\r\\\x41", b"% { } \t\n\r\\A"),
        ("%i", b"1"),
        ("ü", "ü".encode()),
    ],
)
def test_what_verbs_write(layout: str, written: bytes) -> None:
    assert formatted(layout) == written


def test_records_are_counted() -> None:
    formatter = Formatter(parse_layout("%i,"))
    assert b"".join(formatter.format(RECORD) for _ in range(3)) == b"1,2,3,"


def test_null_is_written_as_nothing() -> None:
    assert formatted("[%k|%v|%K|%d|%d{strftime[%F]}]", ClientRecord()) == b"[||0|-1|]"


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("%", "at the end"),
        ("%q", "no such verb"),
        ("%v{", "never closed"),
        ("%v{}", "nothing in the braces"),
        ("%v{rot13}", "text is written as"),
        ("%o{rot13}", "no way to write a number"),
        ("%v{unpack[z]}", "no code"),
        ("%v{unpack}", "stands in brackets"),
        ("%v{unpack[b}", "never closed by"),
        ("%v{unpack[b]", "never closed"),
        ("%d{go[2006]}", "strftime"),
        ("%h", "needs braces"),
        ("%h{%k", "never closed"),
        ("%h{%o}", "a header has"),
        ("%x", "not shown to clients of librdkafka"),
        ("%y", "not shown"),
        ("%|", "not shown"),
        ("%a{compression}", "only %a{timestamp-type}"),
        ("\\q", "escapes are"),
        ("\\", "escapes are"),
        ("\\x4", "two hex digits"),
    ],
)
def test_layouts_that_cannot_be(layout: str, reason: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_layout(layout)
    assert reason in str(caught.value)


def test_a_layout_is_taken_apart() -> None:
    assert parse_layout(r"%k{hex}\t%h{%v}") == (
        Verb("k", "hex"),
        Literal(b"\t"),
        Verb("h", inner=(Verb("v"),)),
    )


@given(st.text(alphabet="%{}[]#\\tkvhHpodxunackstrfime0123456789 :"))
def test_any_layout_is_parsed_or_refused(layout: str) -> None:
    try:
        parsed = parse_layout(layout)
        formatter = Formatter(parsed, lambda _topic, _partition: (0, 0))
    except LayoutError:
        return
    formatter.format(RECORD)


@given(st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1))
def test_numbers_of_a_width_have_that_width(number: int) -> None:
    for bits in (64, 32, 16, 8):
        assert len(number_writer(f"big{bits}")(number)) == bits // 8
        assert number_writer(f"little{bits}")(number) == number_writer(f"big{bits}")(number)[::-1]
        assert len(number_writer(f"hex{bits}")(number)) == bits // 4


@given(st.binary(min_size=15, max_size=15))
def test_unpack_agrees_with_struct(data: bytes) -> None:
    numbers = struct.unpack(">bHiq", data)
    assert unpack("bxHxixq$", data) == " ".join(map(str, numbers)).encode()


# ---------------------------------------------------------------- reading by a layout


def read(layout: str, data: bytes, *, limit: int = 1 << 20) -> list[ClientRecord]:
    return list(read_by_layout(parse_layout(layout), io.BytesIO(data), limit=limit))


def test_up_to_the_literal_behind() -> None:
    assert read(r"%k\t%v\n", b"a\t1\nb\t2") == [ClientRecord(b"a", b"1"), ClientRecord(b"b", b"2")]


def test_by_length() -> None:
    assert read("%K{big16}%V{little32}%k%v", b"\0\1\2\0\0\0kvv" * 2) == [ClientRecord(b"k", b"vv")] * 2
    assert read("%V{byte}%v;", b"\3a;b;") == [ClientRecord(value=b"a;b")]
    assert read("%v{2}", b"abcd") == [ClientRecord(value=b"ab"), ClientRecord(value=b"cd")]
    assert read(r"%V %v\n", b"3 a\nb\n") == [ClientRecord(value=b"a\nb")]


def test_encoded_text_and_numbers() -> None:
    assert read(r"%p{hex8} %d %t %k{hex} %v{base64}\n", b"0a 1700000000123 t 6b6579 AAE=\n") == [
        ClientRecord(b"key", b"\0\1", topic="t", partition=10, timestamp=1_700_000_000_123)
    ]


def test_headers() -> None:
    assert read(r"%H %h{%k=%v,}%v\n", b"2 a=1,b=,x\n0 y\n") == [
        ClientRecord(value=b"x", headers=(("a", b"1"), ("b", b""))),
        ClientRecord(value=b"y"),
    ]


@pytest.mark.parametrize(
    ("layout", "data", "reason"),
    [
        (r"%k:%v\n", b"a\n", "was to come"),
        ("%V{big32}%v", b"\0\0\0\5ab", "3 bytes too early"),
        ("%V{big32}%v", b"\xff\0\0\0", "a record may have"),
        ("%p %v;", b"x", "where a number"),
        ("%v{hex};", b"zz;", "is no hex"),
        ("%v{base64};", b"*;", "is no base64"),
        ("%H{byte}%h{%k=}%v;", b"\1\xff=v;", "no UTF-8"),
        ("<%v>", b"[", "was to come"),
        (r"%v\n", b"a" * 200, "without"),
        ("%v", b"a" * 200, "may have"),
        ("%o{hex8}%v;", b"zz;", "no hex number"),
    ],
)
def test_input_that_does_not_fit(layout: str, data: bytes, reason: str) -> None:
    with pytest.raises(RecordInputError, match=reason):
        read(layout, data, limit=100)


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("%k%v", "says where %k ends"),
        ("%h{%k}%v;", "needs %H"),
        ("abc", "nothing of a record"),
        ("%i%v;", "written but not read"),
        ("%d{strftime[%F]}%v;", "written but not read"),
        ("%v{unpack[s]}", "written but not read"),
        ("%o{hex}%v;", "nobody can tell"),
    ],
)
def test_layouts_that_cannot_be_read(layout: str, reason: str) -> None:
    with pytest.raises(LayoutError) as caught:
        check_readable(parse_layout(layout))
    assert reason in str(caught.value)


LOSSLESS = "%K{big32}%V{big32}%T{byte}%H{big16}%h{%K{big32}%k%V{big32}%v}%k%v%t%p{big32}%d{big64}"


@given(
    st.lists(
        st.builds(
            ClientRecord,
            key=st.binary(max_size=20),
            value=st.binary(max_size=200),
            headers=st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9)), max_size=3).map(tuple),
            topic=st.text(alphabet="abc", max_size=9),
            partition=st.integers(0, 1 << 20),
            offset=st.just(-1),
            timestamp=st.integers(-(1 << 63), (1 << 63) - 1),
            timestamp_type=st.just(""),
            leader_epoch=st.just(-1),
            lacks_headers=st.just(False),
        )
    )
)
def test_what_was_written_with_lengths_is_read_back(records: list[ClientRecord]) -> None:
    formatter = Formatter(parse_layout(LOSSLESS))
    assert read(LOSSLESS, b"".join(map(formatter.format, records))) == records


class Trickle(io.RawIOBase):
    """A pipe that gives a byte at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read1(self, size: int) -> bytes:
        return self._data.read(1)


def test_how_input_is_cut_into_reads_does_not_matter() -> None:
    layout = parse_layout(r"%k--%v==\n")
    found = list(read_by_layout(layout, Trickle(b"a--1=\n==\nb-c--==\n"), limit=100))
    assert found == [ClientRecord(b"a", b"1=\n"), ClientRecord(b"b-c", b"")]
