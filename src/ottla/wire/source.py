"""Source text of a codec in the making: lines, the run of fixed fields not yet written, and the names it refers to."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct, calcsize
from typing import Any

from ottla.wire.table import PRIMITIVES, Field, Fields, Schema


class Source:
    """Grows line by line. ``names`` becomes the globals of the function that the lines define."""

    def __init__(self, schema: Schema, version: int, names: dict[str, Any]) -> None:
        self.schema = schema
        self.version = version
        self.is_flexible = version in schema.flexible
        self.names = names
        self._lines: list[str] = []
        self._depth = 0
        self._numbered = 0
        self._run: list[tuple[str, str]] = []

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name for a local variable that no other one has."""
        self._numbered += 1
        return f"{stem}{self._numbered}"

    def fixed(self, code: str, expression: str) -> None:
        """Adds to the run of adjacent fixed fields, which one Struct will carry."""
        self._run.append((code, expression))

    def take_run(self) -> tuple[str, list[str]]:
        run, self._run = self._run, []
        return ">" + "".join(code for code, _ in run), [expression for _, expression in run]

    def struct_method(self, layout: str, method: str) -> str:
        """The name of a bound method of the Struct with this layout."""
        name = f"{method}_{layout[1:]}".replace("?", "t")
        self.names[name] = getattr(Struct(layout), method)
        return name

    def is_compact(self, field: Field) -> bool:
        return self.is_flexible and not field.rigid

    def carries(self, field: Field) -> bool:
        return self.version in field.versions

    def tagged(self, fields: Fields) -> list[Field]:
        """The tagged fields of this version, in the order in which they are written."""
        found = [field for field in fields if field.tag is not None and self.carries(field)]
        return sorted(found, key=lambda field: field.tag or 0)

    def bytes_min(self, field: Field) -> int:
        """The fewest bytes that one element of an array takes. Every element takes one, as Kafka has it too."""
        if field.is_struct:
            return max(1, self._struct_bytes_min(self.schema.structs[field.type]))
        return self._scalar_bytes_min(field)

    def _struct_bytes_min(self, fields: Fields) -> int:
        """Counts the tag section of flexible versions."""
        total = int(self.is_flexible)
        for field in fields:
            if not self.carries(field) or field.tag is not None:
                continue
            if field.is_array:
                total += 1 if self.is_compact(field) else 4
            elif field.is_struct:
                nullable = self.version in field.nullable
                total += 1 if nullable else self._struct_bytes_min(self.schema.structs[field.type])
            else:
                total += self._scalar_bytes_min(field)
        return total

    def _scalar_bytes_min(self, field: Field) -> int:
        if field.type in PRIMITIVES:
            return calcsize(PRIMITIVES[field.type])
        if self.is_compact(field):
            return 1
        return 2 if field.type == "string" else 4

    def text(self) -> str:
        assert not self._run, "fixed fields that were never written"
        return "\n".join(self._lines) + "\n"


def compiled(text: str, function: str, names: dict[str, Any], title: str) -> Any:
    """The function that ``text`` defines. Tracebacks show its lines, as they do for a file."""
    filename = f"<{title}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), names)  # noqa: S102  # made from our own table
    return names[function]
