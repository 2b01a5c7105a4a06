"""Write the modules of ``ottla.wire.messages`` and ``ottla.wire.keys`` from the message table.

``--check`` only says whether they are fresh.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.wire import table
from ottla.wire.table import Field, Fields, Schema

WIRE = Path(__file__).resolve().parent.parent / "src" / "ottla" / "wire"
MADE = '"""Made from the message table by scripts/wire_messages.py; edit neither."""\n\nfrom __future__ import annotations\n\n'
TYPES = {
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
}
SENT_TYPES = {**TYPES, "records": "Part"}
"""What a broker answers with may still lie in a file."""


def modules() -> dict[Path, str]:
    """Every made module with its text."""
    grouped: dict[str, list[Schema]] = {}
    for schema in map(table.schema, table.names()):
        grouped.setdefault(schema.module, []).append(schema)
    made = {WIRE / "messages" / f"{name}.py": _module(schemas) for name, schemas in grouped.items()}
    return {**made, WIRE / "keys.py": _keys()}


def _module(schemas: list[Schema]) -> str:
    classes = [text for schema in schemas for text in _classes(schema)]
    body = "\n\n".join(classes)
    used = [name for name in ("EMPTY", "ZERO_UUID", "Buffer", "Message", "Part") if re.search(rf"\b{name}\b", body)]
    return f"{MADE}from ottla.wire.message import {', '.join(used)}\n\n\n{body}"


def _classes(schema: Schema) -> Iterator[str]:
    facts = "" if schema.key is None else f"API key {schema.key}, "
    types = SENT_TYPES if schema.name.endswith("Response") else TYPES
    yield _class(schema.name, schema.fields, types, f"{facts}{_span(schema)}.")
    for name, fields in schema.structs.items():
        yield _class(name, fields, types, None)


def _span(schema: Schema) -> str:
    low, high = schema.versions
    return f"version {low}" if low == high else f"versions {low} to {high}"


def _class(name: str, fields: Fields, types: dict[str, str], about: str | None) -> str:
    lines = [f"class {name}(Message):"]
    if about:
        lines += [f'    """{about[0].upper()}{about[1:]}"""', ""]
    lines += [*_slots(fields)]
    if fields:
        lines += ["", "    def __init__(", "        self,", "        *,"]
        lines += [f"        {field.attribute}: {_annotation(field, types)} = {_parameter(field)}," for field in fields]
        lines += ["    ) -> None:"]
        lines += [line for field in fields for line in _kept(field)]
    return "\n".join(lines) + "\n"


def _slots(fields: Fields) -> list[str]:
    names = [f'"{field.attribute}"' for field in fields]
    line = f"    __slots__ = ({', '.join(names)}{',' * (len(names) == 1)})"
    return [line] if len(line) <= 120 else ["    __slots__ = (", *(f"        {name}," for name in names), "    )"]


def _annotation(field: Field, types: dict[str, str]) -> str:
    made = types.get(field.type) or (field.type if field.is_struct else "int")
    if field.is_array:
        made = f"list[{made}]"
    may_be_null = field.nullable != table.NONE or (field.is_struct and not field.is_array)
    return f"{made} | None" if may_be_null else made


def _parameter(field: Field) -> str:
    """The default in the signature, where nothing can be made anew."""
    made = field.default_source
    return "EMPTY" if made == "[]" else "None" if made.endswith("()") else made


def _kept(field: Field) -> list[str]:
    """The assignment of one slot, on one line or, past the line's length, as the formatter breaks it."""
    name, made = field.attribute, field.default_source
    is_made = made == "[]" or (made.endswith("()") and field.nullable == table.NONE)
    value = f"{made} if {name} is {_parameter(field)} else {name}" if is_made else name
    line = f"        self.{name} = {value}"
    return [line] if len(line) <= 120 else [f"        self.{name} = (", f"            {value}", "        )"]


def _keys() -> str:
    requests = [schema for schema in map(table.schema, table.names()) if schema.name.endswith("Request")]
    names = [table.snake(request.name.removesuffix("Request")).upper() for request in requests]
    members = [f"    {name} = {request.key}" for name, request in zip(names, requests, strict=True)]
    facts = [f"    ApiKey.{name}: {_facts(request)}," for name, request in zip(names, requests, strict=True)]
    return "\n".join(
        [
            f"{MADE}from enum import IntEnum\nfrom typing import Final\n\n\nclass ApiKey(IntEnum):",
            *members,
            "\n\nFACTS: Final[dict[int, tuple[int, int, int, int, int]]] = {",
            "    # lowest version, highest, lowest that Kafka 4 accepts, highest that is finished, first that is flexible",
            *facts,
            "}\n",
        ]
    )


def _facts(request: Schema) -> tuple[int, int, int, int, int]:
    low, high = request.versions
    flexible = request.flexible.low if request.flexible != table.NONE else table.OPEN
    return low, high, request.floor, high - request.unstable, flexible


def main() -> int:
    """Write the modules, or with ``--check`` name those that are not fresh."""
    made = modules()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left = [path for path in (WIRE / "messages").glob("*.py") if path not in made and path.name != "__init__.py"]
    if "--check" in sys.argv[1:]:
        for path in (*stale, *left):
            print(f"{path.name} is not fresh: run make wire", file=sys.stderr)
        return bool(stale or left)
    for path in left:
        path.unlink()
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
