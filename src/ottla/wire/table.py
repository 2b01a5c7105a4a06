"""The message table: every message of the Kafka protocol as data.

``messages.txt`` lies beside this module. A message is a block: a line with its name and facts, then one line a field,
indented under the structure that it belongs to; blocks are parted by blank lines. ::

    FetchRequest key=1 versions=0-18 flexible=12+ floor=4
      ClusterId string 12+ null=12+ tag=0 default=null ignorable
      Topics []FetchTopic 0+
        Topic string 0-12 ignorable

A field names its type and the versions that carry it. ``null`` are the versions in which it may be null, ``tag`` makes
it a tagged field (KIP-482), ``ignorable`` lets a version that does not know it drop it in silence, ``rigid`` keeps the
old encoding in flexible versions. A structure that several fields share stands before them as ``struct NAME``. On the
first line, ``floor`` is the lowest version that Kafka 4 still accepts, and ``unstable`` says that the highest version
is not finished.

The text is read and cut into blocks once, which takes about a millisecond; a block is parsed when its codec is first
asked for.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

OPEN = 32767
"""The end of a range that is open: no version is higher, it being an int16."""

PRIMITIVES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Types of a fixed size, with their codes in a ``struct`` format."""

_NATURAL = {"string": '""', "bytes": 'b""', "bool": "False", "float64": "0.0", "uuid": "ZERO_UUID"}


class Versions(NamedTuple):
    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


NONE = Versions(0, -1)


class Field(NamedTuple):
    name: str
    attribute: str
    """The name in Python."""
    type: str
    """Of the element, if this is an array."""
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: str | None
    """As the table spells it; None is the type's own default."""
    ignorable: bool
    rigid: bool

    @property
    def is_struct(self) -> bool:
        return self.type[0].isupper()

    @property
    def default_source(self) -> str:
        """The default as Python spells it. Arrays and structures that are made anew are ``[]`` and ``Name()``."""
        if self.is_array:
            return "None" if self.default == "null" else "[]"
        if self.is_struct:
            is_absent = self.tag is not None and self.nullable == NONE
            return "None" if is_absent or self.default == "null" else f"{self.type}()"
        if self.type == "records":
            return 'b""' if self.nullable == NONE else "None"
        if self.default is None:
            return _NATURAL.get(self.type, "0")
        return {"null": "None", "true": "True"}.get(self.default, self.default)


Fields = tuple[Field, ...]


class Schema(NamedTuple):
    name: str
    key: int | None
    versions: Versions
    flexible: Versions
    floor: int
    unstable: bool
    fields: Fields
    structs: dict[str, Fields]

    @property
    def module(self) -> str:
        """The module of ``ottla.wire.messages`` that holds the classes; what belongs together shares one."""
        if self.name.endswith("Header"):
            return "headers"
        if self.key is None:
            return snake(self.name.removesuffix("Key").removesuffix("Value"))
        return f"k{self.key:02}_{snake(self.name.removesuffix('Request').removesuffix('Response'))}"


@cache
def schema(name: str) -> Schema:
    return _parse(_blocks()[name])


def names() -> list[str]:
    """Every message, in the order of the table."""
    return list(_blocks())


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@cache
def _blocks() -> dict[str, str]:
    data = pkgutil.get_data("ottla.wire", "messages.txt")
    assert data is not None
    _comment, *blocks = data.decode().strip().split("\n\n")
    return {block[: block.index(" ")]: block for block in blocks}


def _parse(block: str) -> Schema:
    head, *lines = block.split("\n")
    name, *words = head.split(" ")
    facts = _facts(words)
    structs: dict[str, Fields] = {}
    fields = tuple(_fields(lines, structs))
    versions = _versions(facts["versions"])
    return Schema(
        name,
        int(facts["key"]) if "key" in facts else None,
        versions,
        _versions(facts.get("flexible")),
        int(facts.get("floor", versions.low)),
        "unstable" in facts,
        fields,
        structs,
    )


def _fields(lines: list[str], structs: dict[str, Fields]) -> Iterator[Field]:
    """The fields of one level of indentation; structures found underneath go into ``structs``."""
    at = 0
    while at < len(lines):
        indent = _indent(lines[at])
        stop = at + 1
        while stop < len(lines) and _indent(lines[stop]) > indent:
            stop += 1
        name, kind, *words = lines[at].split()
        inside = lines[at + 1 : stop]
        if name == "struct":
            structs[kind] = tuple(_fields(inside, structs))
        else:
            field = _field(name, kind, words)
            if inside:
                structs[field.type] = ()  # holds the place, so that outer structures come first
                structs[field.type] = tuple(_fields(inside, structs))
            yield field
        at = stop


def _field(name: str, kind: str, words: list[str]) -> Field:
    facts = _facts(words[1:])
    return Field(
        name,
        snake(name),
        kind.removeprefix("[]"),
        kind.startswith("[]"),
        _versions(words[0]),
        _versions(facts.get("null")),
        int(facts["tag"]) if "tag" in facts else None,
        facts.get("default"),
        "ignorable" in facts,
        "rigid" in facts,
    )


def _facts(words: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _versions(text: str | None) -> Versions:
    """``3``, ``0-12`` or ``9+``; None is no version at all."""
    if text is None:
        return NONE
    low, dash, high = text.partition("-")
    if low.endswith("+"):
        return Versions(int(low[:-1]), OPEN)
    return Versions(int(low), int(high) if dash else int(low))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
