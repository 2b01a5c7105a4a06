"""Protocol Buffers, with the messages in a file: a descriptor set (``protoc --descriptor_set_out``), or a ``.proto`` where grpcio-tools is there.

Enumerations are the names of their values, Timestamp and the wrapper types are what they stand for. A field without presence has
its default where it is not set, as everywhere; one with presence, and a message, is null.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from ottla.scan.columns import TIMESTAMP
from ottla.scan.errors import OptionError
from ottla.scan.formats.base import RowFormat

_TYPES = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
_DEPTH_MAX = 16
Take = Callable[[Any], Any]


class ProtobufFormat(RowFormat):
    name = "protobuf"

    def __init__(self, files: descriptor_pb2.FileDescriptorSet, message: str) -> None:
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        try:
            found: Descriptor = pool.FindMessageTypeByName(message)
        except KeyError:
            raise OptionError(f"valueMessage={message}: there is no such message in the schema") from None
        self._class = message_factory.GetMessageClass(found)
        made = [(field.name, *_field(field, 0)) for field in found.fields]
        self._takes = [take for _, _, take in made]
        super().__init__(pa.schema([(name, kind) for name, kind, _ in made]))

    def parse_row(self, value: bytes) -> Sequence[object] | None:
        message = self._class()
        try:
            message.ParseFromString(value)
            return [take(message) for take in self._takes]
        except (DecodeError, ValueError, OverflowError):
            return None


def open_protobuf(path: str, message: str) -> ProtobufFormat:
    files = descriptor_pb2.FileDescriptorSet()
    try:
        data = _compiled(Path(path)) if path.endswith(".proto") else Path(path).read_bytes()
        files.ParseFromString(data)
    except (OSError, DecodeError) as error:
        raise OptionError(f"valueSchemaFile={path}: {error}") from None
    return ProtobufFormat(files, message)


def _compiled(path: Path) -> bytes:
    try:
        from grpc_tools import protoc
    except ImportError:
        raise OptionError(
            f"valueSchemaFile={path}: to read a .proto, install grpcio-tools, or make a descriptor set of it: "
            "protoc --include_imports --descriptor_set_out=FILE"
        ) from None
    with tempfile.NamedTemporaryFile() as out:
        arguments = ["protoc", f"-I{path.parent}", "--include_imports", f"--descriptor_set_out={out.name}", str(path)]
        if protoc.main(arguments) != 0:
            raise OptionError(f"valueSchemaFile={path}: protoc does not take it")
        return Path(out.name).read_bytes()


def _field(field: FieldDescriptor, depth: int) -> tuple[pa.DataType, Take]:
    """The type of a field's column, and how its value is taken out of a message."""
    name = field.name
    if depth > _DEPTH_MAX:
        raise OptionError(f"message {field.containing_type.full_name} contains itself, which no column type can")
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
        key_type, _ = _single(key, depth)
        value_type, convert = _single(value, depth)
        return pa.map_(key_type, value_type), lambda message: [
            (one, convert(other)) for one, other in getattr(message, name).items()
        ]
    made, convert = _single(field, depth)
    if field.is_repeated:
        return pa.list_(made), lambda message: [convert(item) for item in getattr(message, name)]
    if field.has_presence:
        return made, lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return made, lambda message: convert(getattr(message, name))


def _single(field: FieldDescriptor, depth: int) -> tuple[pa.DataType, Take]:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return (pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()), _same
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {value.number: value.name for value in field.enum_type.values}
        return pa.string(), lambda number: names.get(number, str(number))
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return _TYPES[field.cpp_type], _same
    kind = field.message_type
    if kind.full_name == "google.protobuf.Timestamp":
        return TIMESTAMP, lambda moment: moment.ToDatetime(tzinfo=UTC)
    if kind.file.name == "google/protobuf/wrappers.proto":
        made, _ = _single(kind.fields_by_name["value"], depth)
        return made, lambda wrapper: wrapper.value
    inner = [(one.name, *_field(one, depth + 1)) for one in kind.fields]
    if not inner:
        return pa.struct([("_", pa.string())]), lambda _: {}
    return pa.struct([(name, made) for name, made, _ in inner]), lambda message: {
        name: take(message) for name, _, take in inner
    }


def _same(value: Any) -> Any:
    return value
