"""Writes the decoder of one message in one version, as source text.

Everything is laid out flat in one function, nested structures included, because a call for each would cost more than
the reading. ``buf`` is the frame, ``pos`` the next byte and ``end`` the number of bytes. Adjacent fixed fields are one
``unpack_from`` with the slots as its targets, and the length of the string or array that follows them is part of it::

    m2 = new_FetchPartition(FetchPartition)
    m2.partition, m2.current_leader_epoch, m2.fetch_offset, n3 = unpack_from_iiqB(buf, pos)

Frames come as ``bytes``, whose slices are values and quicker than those of views; any other buffer is copied first.
What is too short makes Struct or the index fail, which the function turns into ``DecodeError`` at its end. Slices would
not fail, so before each one, and before anything is made for a count, the bytes that are left are compared.
"""

from __future__ import annotations

from struct import calcsize
from typing import Any

from ottla.wire.source import Source
from ottla.wire.table import NONE, PRIMITIVES, Field, Fields, Schema


def decoder_source(schema: Schema, version: int, names: dict[str, Any]) -> str:
    source = _Reading(schema, version, names)
    with source.block("def decode(buf, pos=0):"):
        with source.block("if type(buf) is not bytes:"):
            source.line("buf = bytes(buf)")
        source.line("end = len(buf)")
        if _has_records(schema):
            source.line("view = memoryview(buf)")
        with source.block("try:"):
            source.structure(schema.fields, "m", schema.name)
            source.flush()
        with source.block("except (StructError, IndexError) as error:"):
            source.line(f"raise DecodeError('{schema.name} ends too early') from error")
        source.line("return m")
    return source.text()


def _has_records(schema: Schema) -> bool:
    return any(field.type == "records" for fields in (schema.fields, *schema.structs.values()) for field in fields)


class _Reading(Source):
    def flush(self) -> None:
        layout, targets = self.take_run()
        if layout == ">B":
            self.line(f"{targets[0]} = buf[pos]")
        elif targets:
            unpack = self.struct_method(layout, "unpack_from")
            self.line(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {unpack}(buf, pos)")
        if targets:
            self.line(f"pos += {calcsize(layout)}")

    def structure(self, fields: Fields, made: str, name: str) -> None:
        self.line(f"{made} = new_{name}({name})")
        for field in fields:
            if not self.carries(field) or field.tag is not None:
                self.line(f"{made}.{field.attribute} = {field.default_source}")
            else:
                self.value(field, f"{made}.{field.attribute}")
        if self.is_flexible:
            self.tags(self.tagged(fields), made)

    def value(self, field: Field, target: str) -> None:
        if field.is_array:
            self.array(field, target)
        elif field.is_struct:
            self.nested(field, target)
        elif field.type in PRIMITIVES:
            self.fixed(PRIMITIVES[field.type], target)
        else:
            self.sized(field, target)

    def length(self, field: Field, code: str, varint_after: str) -> str:
        """Reads a length into a variable and gives its name. A compact one is one more than the length, 0 being null."""
        size = self.fresh("n")
        self.fixed("B" if self.is_compact(field) else code, size)
        self.flush()
        if self.is_compact(field):
            with self.block(f"if {size} > 127:"):
                self.line(f"{size}, pos = {varint_after}(buf, pos, {size})")
        return size

    def sized(self, field: Field, target: str) -> None:
        """A string, bytes or records: a length, then that many bytes."""
        is_string = field.type == "string"
        size = self.length(field, "h" if is_string else "i", "string_varint_after" if is_string else "varint_after")
        cut = {"string": "buf[pos:stop].decode('utf-8', 'replace')", "bytes": "buf[pos:stop]"}
        self.line(f"stop = pos + {size} - 1" if self.is_compact(field) else f"stop = pos + {size}")
        with self.block("if pos <= stop <= end:"):
            self.line(f"{target} = {cut.get(field.type, 'view[pos:stop]')}")
            self.line("pos = stop")
        self.otherwise(field, target, "stop - pos")

    def otherwise(self, field: Field, target: str, size: str) -> None:
        """What follows a length that does not fit: null where that is allowed, or the end."""
        if self.version in field.nullable:
            with self.block(f"elif {size} == -1:"):
                self.line(f"{target} = None")
        with self.block("else:"):
            self.line(f"raise overrun('{self.schema.name}: {field.name}', {size}, end - pos)")

    def array(self, field: Field, target: str) -> None:
        count = self.length(field, "i", "varint_after")
        if self.is_compact(field):
            self.line(f"{count} -= 1")
        with self.block(f"if 0 <= {count} * {self.bytes_min(field)} <= end - pos:"):
            self.elements(field, target, count)
        self.otherwise(field, target, count)

    def elements(self, field: Field, target: str, count: str) -> None:
        code = PRIMITIVES.get(field.type)
        if code is not None:
            layout = f'">" + "{code}" * {count}' if len(code) > 1 else f'f">{{{count}}}{code}"'
            self.line(f"{target} = list(unpack_from({layout}, buf, pos))")
            self.line(f"pos += {count} * {calcsize(code)}")
            return
        made, element = self.fresh("a"), self.fresh("m")
        self.line(f"{target} = {made} = []")
        with self.block(f"for _ in range({count}):"):
            if field.is_struct:
                self.structure(self.schema.structs[field.type], element, field.type)
            else:
                # An element may not be null, even where the array may.
                self.sized(field._replace(is_array=False, nullable=NONE), element)
            self.flush()
            self.line(f"{made}.append({element})")

    def nested(self, field: Field, target: str) -> None:
        made = self.fresh("m")
        fields = self.schema.structs[field.type]
        if self.version not in field.nullable:
            self.structure(fields, made, field.type)
            self.line(f"{target} = {made}")
            return
        # Null is -1, but 0 in a tagged field: Kafka writes a varint there.
        present = self.fresh("n")
        self.fixed("b", present)
        self.flush()
        with self.block(f"if {present} < {int(field.tag is not None)}:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.structure(fields, made, field.type)
            self.flush()
            self.line(f"{target} = {made}")

    def tags(self, known: list[Field], made: str) -> None:
        """The tag section. A known field must fill exactly the size it claims; unknown ones are passed over."""
        count = self.fresh("n")
        self.fixed("B", count)
        self.flush()
        with self.block(f"if {count}:"):
            if not known:
                self.line(f"pos = skip_tags(buf, pos, {count})")
                return
            tag, behind = self.fresh("tag"), self.fresh("behind")
            self.line(f"{count}, pos = tag_count(buf, pos, {count})")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, pos, {behind} = tag_header(buf, pos)")
                for at, field in enumerate(known):
                    with self.block(f"{'elif' if at else 'if'} {tag} == {field.tag}:"):
                        self.value(field, f"{made}.{field.attribute}")
                        self.flush()
                with self.block("else:"):
                    self.line(f"pos = {behind}")
                with self.block(f"if pos != {behind}:"):
                    self.line(f"raise DecodeError(f'{self.schema.name}: tagged field {{{tag}}} has the wrong size')")
