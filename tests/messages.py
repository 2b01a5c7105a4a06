"""Messages of every class and version with random values, for the tests that compare codecs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from random import Random
from typing import Any

from ottla import wire
from ottla.wire import table
from ottla.wire.table import Field, Fields, Schema

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
LETTERS = "abcXYZ019._-äß☃😀"


def every_version(name: str) -> range:
    low, high = table.schema(name).versions
    return range(low, high + 1)


def all_versions() -> Iterator[tuple[str, int]]:
    for name in table.names():
        for version in every_version(name):
            yield name, version


class Samples:
    """Makes messages.

    ``gentle`` ones hold nothing that a typed peer refuses, as times before the epoch; in ``sparse`` ones most fields
    hold their defaults, so that some fit into versions that do not have all fields.
    """

    def __init__(self, random: Random, *, gentle: bool = False, sparse: bool = False) -> None:
        self.random = random
        self.gentle = gentle
        self.sparse = sparse

    def message(self, name: str, version: int) -> wire.Message:
        schema = table.schema(name)
        return self._structure(schema, wire.message_class(name), schema.fields, version)

    def _structure(self, schema: Schema, cls: type[wire.Message], fields: Fields, version: int) -> wire.Message:
        carried = [field for field in fields if version in field.versions and not self._is_left(field)]
        return cls(**{field.attribute: self._value(schema, field, version) for field in carried})

    def _is_left(self, field: Field) -> bool:
        return self.sparse and not (field.is_array and field.is_struct) and self.random.random() < 0.8

    def _value(self, schema: Schema, field: Field, version: int) -> Any:
        if version in field.nullable and self.random.random() < 0.25:
            return None
        if field.is_array:
            element = field._replace(is_array=False, nullable=table.NONE, tag=None)
            most = 150 if not field.is_struct and self.random.random() < 0.05 else 3
            return [self._value(schema, element, version) for _ in range(self.random.randint(0, most))]
        if field.is_struct:
            return self._nested(schema, field, version)
        return self._scalar(field)

    def _nested(self, schema: Schema, field: Field, version: int) -> Any:
        cls = getattr(__import__(wire.message_class(schema.name).__module__, fromlist=[field.type]), field.type)
        made = self._structure(schema, cls, schema.structs[field.type], version)
        # A tagged structure full of defaults is not written, and reads back as absent.
        return None if field.tag is not None and (made == cls() or self.random.random() < 0.3) else made

    def _scalar(self, field: Field) -> Any:
        random = self.random
        match field.type:
            case "string":
                return "".join(random.choices(LETTERS, k=random.choice((0, 1, 5, 20, 60, 200))))
            case "bytes":
                return random.randbytes(random.choice((0, 1, 30, 130, 300)))
            case "records":
                return random.randbytes(random.choice((0, 61, 200, 1024, 1025, 20000)))
            case "uuid":
                return random.randbytes(16)
            case "bool":
                return random.random() < 0.5
            case "float64":
                return random.uniform(-1e9, 1e9)
            case _:
                return self._integer(field)

    def _integer(self, field: Field) -> int:
        bits = BITS[field.type]
        if self.gentle:
            return (
                self.random.randint(0, 100) if "ErrorCode" in field.name else self.random.getrandbits(min(bits - 1, 40))
            )
        low, high = (0, 1 << bits) if field.type.startswith("u") else (-1 << bits - 1, 1 << bits - 1)
        return self.random.choice((low, high - 1, 0 if low == 0 else -1, self.random.randrange(low, high)))


def as_json(message: wire.Message, name: str, version: int) -> dict[str, Any]:
    """A message as Kafka's JSON converters read it."""
    schema = table.schema(name)
    return _json_structure(schema, schema.fields, message, version)


def _json_structure(schema: Schema, fields: Fields, made: wire.Message, version: int) -> dict[str, Any]:
    found = {}
    for field in fields:
        value = getattr(made, field.attribute)
        is_absent = value is None and field.tag is not None and version not in field.nullable
        if version in field.versions and not is_absent:
            found[field.name[0].lower() + field.name[1:]] = _json_value(schema, field, value, version)
    return found


def _json_value(schema: Schema, field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_json_value(schema, field._replace(is_array=False), item, version) for item in value]
    if field.is_struct:
        return _json_structure(schema, schema.structs[field.type], value, version)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if field.type in ("bytes", "records") else value
