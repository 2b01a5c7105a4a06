"""Writes the encoder of one message in one version, as source text.

As the decoder, it is one flat function. It appends to a ``bytearray`` that the caller may have begun with a header,
and gives back a list of parts. Records above a bound become a part of their own, uncopied, and what follows them
begins another ``bytearray``; so most messages are a single part::

    out += pack_ihq(m2.index, m2.error_code, m2.base_offset)

Null where none may be and values of the wrong type or size make ``pack``, ``len`` or ``encode`` fail, which the
function turns into ``EncodeError`` at its end.
"""

from __future__ import annotations

from struct import calcsize
from typing import Any

from ottla.wire.source import Source
from ottla.wire.table import NONE, PRIMITIVES, Field, Fields, Schema

COPIED_BYTES_MAX = 1024
"""Records up to here are copied: another part in a vectored write costs more than that."""


def encoder_source(schema: Schema, version: int, names: dict[str, Any]) -> str:
    source = _Writing(schema, version, names)
    with source.block("def encode(m, out):"):
        source.line("parts = []")
        with source.block("try:"):
            source.structure(schema.fields, "m")
            source.flush()
        with source.block("except (StructError, AttributeError, TypeError, UnicodeEncodeError) as error:"):
            source.line(f"raise EncodeError(f'{schema.name}: {{error}}') from error")
        source.line("parts.append(out)")
        source.line("return parts")
    return source.text()


class _Writing(Source):
    def __init__(self, schema: Schema, version: int, names: dict[str, Any]) -> None:
        super().__init__(schema, version, names)
        self._out = "out"

    def flush(self) -> None:
        layout, values = self.take_run()
        if values == ["0"]:
            self.line(f'{self._out} += b"\\0"')
        elif values:
            self.line(f"{self._out} += {self.packed(layout, values)}")

    def packed(self, layout: str, values: list[str]) -> str:
        # A boolean is written as a number, for pack would take None as false.
        return f"{self.struct_method(layout.replace('?', 'b'), 'pack')}({', '.join(values)})"

    def structure(self, fields: Fields, made: str) -> None:
        for field in fields:
            value = f"{made}.{field.attribute}"
            if self.carries(field):
                if field.tag is None:
                    self.value(field, value)
            elif not field.ignorable:
                with self.block(f"if {self.differs(field, value)}:"):
                    self.line(f"raise unknown('{self.schema.name}: {field.name}')")
        if self.is_flexible:
            self.tags(self.tagged(fields), made)

    def differs(self, field: Field, value: str) -> str:
        """An expression that is true when the value is not the field's default."""
        default = field.default_source
        if field.is_array and default == "[]":
            return f"{value} is None or {value}" if field.nullable != NONE else value
        if field.is_struct and not field.is_array and field.default != "null":
            inner = self.schema.structs[field.type]
            differences = " or ".join(self.differs(part, f"{value}.{part.attribute}") for part in inner) or "False"
            return f"{value} is {'None or' if field.nullable != NONE else 'not None and'} ({differences})"
        return f"{value} is not None" if default == "None" else f"{value} != {default}"

    def value(self, field: Field, value: str) -> None:
        if field.is_array:
            self.array(field, value)
        elif field.is_struct:
            self.nested(field, value)
        elif field.type == "uuid":
            # pack would fill up or cut off what has another length.
            with self.block(f"if len({value}) != 16:"):
                self.line(f"raise EncodeError('{self.schema.name}: {field.name} is no uuid')")
            self.fixed(PRIMITIVES["uuid"], value)
        elif field.type in PRIMITIVES:
            self.fixed(PRIMITIVES[field.type], value)
        else:
            self.sized(field, value)

    def sized(self, field: Field, value: str) -> None:
        """A string, bytes or records: a length, then that many bytes."""
        is_string = field.type == "string"
        given, data = self.fresh("v"), self.fresh("b")
        self.line(f"{given} = {value}")
        made = f"{given}.encode()" if is_string else given
        is_nullable = self.version in field.nullable
        self.line(f'{data} = b"" if {given} is None else {made}' if is_nullable else f"{data} = {made}")
        absent = f"{given} is None" if is_nullable else None
        self.length(field, data, "h" if is_string else "i", "string_varint" if is_string else "varint", absent)
        self.flush()
        if field.type == "records":
            with self.block(f"if len({data}) > {COPIED_BYTES_MAX}:"):
                self.line(f"parts += (out, {data})")
                self.line("out = bytearray()")
            with self.block("else:"):
                self.line(f"out += {data}")
        else:
            self.line(f"{self._out} += {data}")

    def length(self, field: Field, data: str, code: str, varint: str, absent: str | None) -> None:
        """The length of ``data``, or null if the condition ``absent`` holds."""
        if not self.is_compact(field):
            self.fixed(code, f"-1 if {absent} else len({data})" if absent else f"len({data})")
            return
        size = self.fresh("n")
        self.line(f"{size} = 0 if {absent} else len({data}) + 1" if absent else f"{size} = len({data}) + 1")
        layout, values = self.take_run()
        short = self.packed(layout + "B", [*values, size]) if values else f"SHORT[{size}]"
        long = f"{self.packed(layout, values)} + {varint}({size})" if values else f"{varint}({size})"
        self.line(f"{self._out} += {short} if {size} < 128 else {long}")

    def array(self, field: Field, value: str) -> None:
        given = self.fresh("v")
        self.line(f"{given} = {value}")
        is_nullable = self.version in field.nullable
        items = f"({given} or ())" if is_nullable else given
        self.length(field, items, "i", "varint", f"{given} is None" if is_nullable else None)
        self.flush()
        code = PRIMITIVES.get(field.type)
        if code is not None and calcsize(code) <= 8:
            self.line(f'{self._out} += pack(f">{{len({items})}}{code}", *{items})')
            return
        element = self.fresh("m")
        with self.block(f"for {element} in {items}:"):
            if field.is_struct:
                self.structure(self.schema.structs[field.type], element)
            else:
                self.value(field._replace(is_array=False, nullable=NONE), element)
            self.flush()

    def nested(self, field: Field, value: str) -> None:
        made = self.fresh("m")
        fields = self.schema.structs[field.type]
        self.line(f"{made} = {value}")
        if self.version not in field.nullable:
            self.structure(fields, made)
            return
        self.flush()
        with self.block(f"if {made} is None:"):
            null = "\\0" if field.tag is not None else "\\xff"
            self.line(f'{self._out} += b"{null}"')
        with self.block("else:"):
            self.fixed("b", "1")
            self.structure(fields, made)
            self.flush()

    def tags(self, known: list[Field], made: str) -> None:
        """The tag section: of the known fields those that differ from their defaults."""
        if not known:
            self.fixed("B", "0")
            return
        self.flush()
        different = [self.differs(field, f"{made}.{field.attribute}") for field in known]
        with self.block(f"if {' or '.join(different)}:"):
            self.tag_section(known, different, made)
        with self.block("else:"):
            self.line(f'{self._out} += b"\\0"')

    def tag_section(self, known: list[Field], different: list[str], made: str) -> None:
        before, count, section = self._out, self.fresh("n"), self.fresh("tags")
        self.line(f"{count} = 0")
        self.line(f'{section} = b""')
        for field, condition in zip(known, different, strict=True):
            with self.block(f"if {condition}:"):
                self._out = self.fresh("o")
                self.line(f"{self._out} = bytearray()")
                self.value(field, f"{made}.{field.attribute}")
                self.flush()
                self.line(f"{count} += 1")
                self.line(f"{section} += varint({field.tag}) + varint(len({self._out})) + {self._out}")
                self._out = before
        self.line(f"{self._out} += SHORT[{count}] + {section}")
