"""Values that need a schema, written by the libraries of those formats."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import thriftpy2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from thriftpy2.protocol import TBinaryProtocolFactory, TCompactProtocolFactory
from thriftpy2.transport import TMemoryBuffer

from ottla.scan.errors import OptionError
from ottla.scan.formats.base import Format
from ottla.scan.formats.opening import open_format

NOON = datetime(2024, 2, 29, 12, 30, 0, 123000, tzinfo=UTC)


def rows(form: Format | None, *values: bytes | None) -> tuple[list[dict[str, Any]], list[bool]]:
    assert form is not None
    found = form.decode(pa.array(values, pa.binary()), form.schema.names)
    table = pa.table(found.columns)
    table.validate(full=True)
    return table.to_pylist(), [False] * len(values) if found.malformed is None else found.malformed.to_pylist()


AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": "double"}},
        {"name": "map", "type": {"type": "map", "values": "int"}},
        {"name": "in", "type": {"type": "record", "name": "In", "fields": [{"name": "b", "type": "bytes"}]}},
        {"name": "again", "type": ["null", "In"]},
    ],
}


def test_avro_with_and_without_the_bytes_of_a_registry(tmp_path: Path) -> None:
    record = {
        "n": 5,
        "s": None,
        "at": NOON,
        "day": date(2024, 2, 29),
        "money": Decimal("12.34"),
        "kind": "B",
        "list": [1.5],
        "map": {"x": 1},
        "in": {"b": b"\xff"},
        "again": {"b": b""},
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), record)
    file = tmp_path / "event.avsc"
    file.write_text(json.dumps(AVRO))
    form = open_format("avro", options={"valueSchemaFile": str(file)})
    value = out.getvalue()
    found, marks = rows(form, value, b"\0\0\0\0\7" + value, None, b"", value[:-1], value + b"x", b"\xff" * 20)
    assert marks == [False, False, False, True, True, True, True]
    assert found[0] == found[1] == record | {"map": [("x", 1)]}
    assert set(found[2].values()) == {None}


def proto_files() -> descriptor_pb2.FileDescriptorSet:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="event.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="SALE", number=1)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="b", number=1, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    event = file.message_type.add(name="Event")
    event.field.add(name="n", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    event.field.add(name="s", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    event.field.add(name="kind", number=3, type=field.TYPE_ENUM, type_name=".shop.Kind", label=field.LABEL_OPTIONAL)
    event.field.add(name="list", number=4, type=field.TYPE_DOUBLE, label=field.LABEL_REPEATED)
    event.field.add(
        name="inner", number=5, type=field.TYPE_MESSAGE, type_name=".shop.Inner", label=field.LABEL_OPTIONAL
    )
    moment = ".google.protobuf.Timestamp"
    event.field.add(name="at", number=6, type=field.TYPE_MESSAGE, type_name=moment, label=field.LABEL_OPTIONAL)
    event.field.add(
        name="inners", number=7, type=field.TYPE_MESSAGE, type_name=".shop.Inner", label=field.LABEL_REPEATED
    )
    needed = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(needed)
    return descriptor_pb2.FileDescriptorSet(file=[needed, file])


def test_protobuf_of_a_descriptor_set(tmp_path: Path) -> None:
    files = proto_files()
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    event = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Event"))(n=5, kind=1, list=[1.5])
    event.inner.b = b"\xff"
    event.at.FromDatetime(NOON)
    event.inners.add()
    path = tmp_path / "event.desc"
    path.write_bytes(files.SerializeToString())
    options = {"valueSchemaFile": str(path), "valueMessage": "shop.Event"}
    found, marks = rows(open_format("protobuf", options=options), event.SerializeToString(), b"", None, b"\xff\xff\xff")
    assert marks == [False, False, False, True]
    assert found[0] == {
        "n": 5,
        "s": "",
        "kind": "SALE",
        "list": [1.5],
        "inner": {"b": b"\xff"},
        "at": NOON,
        "inners": [{"b": b""}],
    }
    assert (found[1]["n"], found[1]["inner"], found[1]["kind"]) == (0, None, "NONE")
    with pytest.raises(OptionError, match="no such message"):
        open_format("protobuf", options=options | {"valueMessage": "shop.Nothing"})


THRIFT = """
enum Kind { A = 1, B = 2 }
struct Inner { 1: required i64 n, 2: optional binary b }
struct Event {
  1: required string name, 2: optional i32 count, 3: Kind kind, 4: list<i64> numbers, 5: map<string, Inner> inners,
  6: Inner inner, 7: double d, 8: bool ok, 9: list<list<Kind>> deep
}
"""


@pytest.mark.parametrize("protocol", ["binary", "compact"])
def test_thrift_in_both_protocols(tmp_path: Path, protocol: str) -> None:
    file = tmp_path / "event.thrift"
    file.write_text(THRIFT)
    types: Any = thriftpy2.load(str(file), module_name=f"{protocol}_thrift")
    inner = types.Inner(n=1, b=b"\xff")
    event = types.Event(
        name="x", kind=2, numbers=[1, 2], inners={"k": inner}, inner=inner, d=1.5, ok=True, deep=[[1], []]
    )
    buffer = TMemoryBuffer()
    factory: Any = TBinaryProtocolFactory() if protocol == "binary" else TCompactProtocolFactory()
    event.write(factory.get_protocol(buffer))
    value = buffer.getvalue()
    options = {"valueSchemaFile": str(file), "valueMessage": "Event", "valueProtocol": protocol}
    found, marks = rows(
        open_format("thrift", options=options), value, value[:-2], value + b"x", b"\xff\xfe\xfd", b"\0", None
    )
    assert marks == [False, True, True, True, True, False]
    assert found[0] == {
        "name": "x",
        "count": None,
        "kind": "B",
        "numbers": [1, 2],
        "inners": [("k", {"n": 1, "b": b"\xff"})],
        "inner": {"n": 1, "b": b"\xff"},
        "d": 1.5,
        "ok": True,
        "deep": [["A"], []],
    }


def test_numbers_that_no_column_can_hold_are_malformed(tmp_path: Path) -> None:
    file = tmp_path / "small.thrift"
    file.write_text("struct Small { 1: i16 n }")
    options = {"valueSchemaFile": str(file), "valueMessage": "Small", "valueProtocol": "compact"}
    # Field 1 of type i16: 5, and 2⁴⁰ as a varint.
    found, marks = rows(open_format("thrift", options=options), b"\x14\x0a\0", b"\x14\x80\x80\x80\x80\x80\x40\0")
    assert (found, marks) == ([{"n": 5}, {"n": None}], [False, True])
    # A list that claims more elements than there are bytes.
    assert rows(open_format("thrift", options=options), b"\x29\xf5\xff\xff\xff\xff\x07\0")[1] == [True]


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="valueSchemaFile is missing"):
        open_format("avro")
    file = tmp_path / "x.avsc"
    file.write_text('"string"')
    with pytest.raises(OptionError):
        open_format("avro", options={"valueSchemaFile": str(file)})
    with pytest.raises(OptionError, match="valueMessage is missing"):
        open_format("thrift", options={"valueSchemaFile": str(file)})
    with pytest.raises(OptionError, match="nowhere"):
        open_format("protobuf", options={"valueSchemaFile": "nowhere", "valueMessage": "x"})
