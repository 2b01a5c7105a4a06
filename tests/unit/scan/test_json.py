from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.scan.columns import TIMESTAMP
from ottla.scan.formats.inference import infer
from ottla.scan.formats.jsonlines import JsonFormat
from ottla.scan.jsonkernel import INTEGER, TEXT, Field, Objects

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.float64()))])
good = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "s": st.none() | st.text(max_size=9),
        "l": st.none() | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        "other": st.integers(),
    },
).map(lambda row: json.dumps(row, ensure_ascii=False).encode())
pretty = good.map(lambda text: json.dumps(json.loads(text), indent=1).encode())
bad = st.sampled_from(
    [b"", b"no", b"5", b"[]", b"{", b'{"n": "text"}', b'{"n": 1.5}', b"{} {}", b'{"s": "\xff"}', b"null"]
)


def rows(
    values: list[bytes | None], names: list[str], schema: pa.Schema = SCHEMA, *, kernel: bool = False
) -> tuple[list[dict[str, Any]], list[bool]]:
    # As a slice, for what is decoded need not lie at the beginning of its buffers.
    array = pa.array([b"before", *values], pa.binary())[1:]
    columns, malformed = JsonFormat(schema, kernel=kernel).decode(array, names)
    table = pa.table(columns)
    table.validate(full=True)
    return table.to_pylist(), [False] * len(values) if malformed is None else malformed.to_pylist()


@given(st.lists(st.none() | good | pretty | bad, max_size=30))
def test_malformed_values_are_marked_and_the_others_are_what_they_say(values: list[bytes | None]) -> None:
    found, marks = rows(values, ["n", "s", "l"])
    for value, row, mark in zip(values, found, marks, strict=True):
        expected = {"n": None, "s": None, "l": None}
        try:
            expected |= {name: json.loads(value or b"{}").get(name) for name in expected}
            is_bad = value == b"" or any(isinstance(expected["n"], kind) for kind in (str, float))
        except (ValueError, AttributeError):
            is_bad = True
        assert mark == is_bad
        assert row == ({"n": None, "s": None, "l": None} if is_bad else expected)


PLAIN = pa.schema(
    [("n", pa.int64()), ("i", pa.int8()), ("s", pa.string()), ("b", pa.bool_()), ("f", pa.float64()), ("t", TIMESTAMP)]
)
numbers = st.integers(-200, 200) | st.integers(-(10**19), 10**19) | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5) | st.just("2024-01-01T00:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from([*PLAIN.names, "other", "", "n\n"]), anything, max_size=7)
plain = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(10**18), 10**18),
        "i": st.integers(-128, 127),
        "s": st.text("ab/é", max_size=9),
        "b": st.booleans(),
        "f": numbers,
        "t": st.just("2024-01-01T10:00:00.5Z"),
        "other": anything,
    },
)
spelled = st.builds(
    lambda row, indent, escapes: json.dumps(row, indent=indent, ensure_ascii=escapes).encode(),
    objects | plain,
    st.sampled_from([None, 1]),
    st.booleans(),
)
odd = st.sampled_from(
    [
        *(
            b"",
            b"{",
            b"{}x",
            b"[]",
            b" {} ",
            b'{"n"}',
            b'{"n":}',
            b'{"n":1,}',
            b'{"n":1 "i":2}',
            b'{"n":1,"n":2}',
            b"null",
        ),
        *(b'{"n":01}', b'{"n":-0}', b'{"n":-}', b'{"n":1.0}', b'{"n":1e2}', b'{"i":128}', b'{"n":9223372036854775808}'),
        *(
            b'{"f":1.}',
            b'{"f":-0.0}',
            b'{"f":1e400}',
            b'{"f":.5}',
            b'{"f":+1}',
            b'{"f":NaN}',
            b'{"b":tru}',
            b'{"b":nullx}',
        ),
        *(
            b'{"other":"\\u12"}',
            b'{"other":"\\q"}',
            b'{"other":[1,{"a":tru}]}',
            b'{"other":[1,]}',
            b'{"s":"a\tb"}',
            b'{"s":"',
        ),
        *(
            b'{"s":"\\ud800"}',
            b'{"s":"\xc3"}',
            b'{"t":"noon"}',
            b'{"t":"2024-01-01"}',
            b'{"t":"2024-01-01T00:00:00"}',
            b'{"b":t',
        ),
        *(b'{"other":' + b"[" * 40 + b"]" * 40 + b"}", b'{"s":"\\n"}', b'{"n":null,"i":null,"b":null}', b'{"other":-}'),
    ]
)


@given(
    st.lists(st.none() | spelled | odd, max_size=20), st.lists(st.sampled_from(PLAIN.names), unique=True, min_size=1)
)
@settings(max_examples=150)
def test_the_kernel_finds_what_the_reader_finds(values: list[bytes | None], names: list[str]) -> None:
    # By their text, in which NaN is NaN and -0.0 is not 0.0.
    assert repr(rows(values, names, PLAIN, kernel=True)) == repr(rows(values, names, PLAIN))


def test_the_kernel_leaves_little_to_the_reader() -> None:
    """Or nothing would be won by it."""
    fields = [Field(b"s", TEXT), Field(b"n", INTEGER, -9, 9)]
    found = pa.array(
        [b'{"s":"a","o":[{"s":"\\n"}],"n":-7}', b"{}", b'{"n":10}', b'{"s":"\\n"}', b'{"s":1}'], pa.binary()
    )
    objects = Objects(fields)
    _, bounds, data = found.buffers()
    objects.take(data.to_pybytes(), bounds.to_pybytes(), b"", 0, len(found))
    assert objects.later == [2, 3, 4]


def test_only_the_wanted_fields_are_converted() -> None:
    assert rows([b'{"n": "text", "s": "a"}', b"{}"], ["s"]) == ([{"s": "a"}, {"s": None}], [False, False])


def test_a_value_larger_than_a_block_is_read() -> None:
    long = "x" * (3 << 20)
    found, _ = rows([json.dumps({"s": long}).encode(), b'{"s": "a"}'], ["s"])
    assert [row["s"] for row in found] == [long, "a"]


def test_types_are_those_of_the_majority() -> None:
    schema = infer(
        [
            b'{"i": 1, "f": 1, "t": "2024-01-01T00:00:00Z", "m": 1, "z": null, "o": {"a": [1, 2]}, "b": true, "e": {}}',
            b'{"i": 2, "f": 1.5, "t": "2024-01-01 00:00:00.123+02:00", "m": "text", "o": {"b": "x"}, "big": 1e400}',
            b'{"i": 3, "m": "text", "w": "2024-01-01T00:00:00Z"}',
            b'{"w": "no instant"}',
            b"no object",
            None,
        ]
    )
    assert schema == pa.schema(
        [
            ("i", pa.int64()),
            ("f", pa.float64()),
            ("t", TIMESTAMP),
            ("m", pa.string()),
            ("z", pa.string()),
            ("o", pa.struct([("a", pa.list_(pa.int64())), ("b", pa.string())])),
            ("b", pa.bool_()),
            ("e", pa.struct([("_", pa.string())])),
            ("big", pa.float64()),
            ("w", pa.string()),
        ]
    )


def test_what_is_mostly_no_objects_has_no_fields() -> None:
    assert infer([b"a", b"{}", b"b"]) is None
    assert infer([None]) is None
    assert infer([b"[" * 100_000]) is None


def test_what_is_wrong_with_a_value_is_told() -> None:
    form = JsonFormat(pa.schema([("n", pa.int32()), ("s", pa.string())]))
    assert form.fault(b'{"n": 1').startswith("no JSON: Expecting ',' delimiter")
    assert form.fault(b"\xff").startswith("no JSON: 'utf-8' codec can't decode")
    assert form.fault(b"[1]") == "no JSON object"
    assert form.fault(b'{"s": "a", "n": "seven"}') == "the field n is no int32"
    assert form.fault(b"[" * 100_000).startswith("no JSON: ")
