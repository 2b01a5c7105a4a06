"""JSON objects, most of them by a kernel of our own, the others by pyarrow's reader, over all values at once.

Only the wanted fields are converted; others are passed over. A value that is no object, or has a field of another type than
the schema says, is malformed.

The kernel (``ottla.scan.jsonkernel``) knows texts, numbers and booleans, and sets aside what is not plain. pyarrow's reader has the last
word on that, and on columns of other types. It dies of a ``null`` where an object should be. So values that do not begin as an
object never get to it, and what may hold such a null behind an object is looked at by Python's own parser first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ottla.scan import jsonkernel
from ottla.scan.columns import gathered
from ottla.scan.formats.base import BulkFormat, Decoding, Parsed, is_text, joined
from ottla.scan.jsonkernel import BOOLEAN, INTEGER, NUMBER, TEXT, Field, Objects

_BLOCK_BYTES = 1 << 20
_NULL_BEHIND_OBJECT = re.compile(rb"\}\s*null")
_IS_COMPILED = not jsonkernel.__file__.endswith(".py")
_INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
"""Types, and how many bits they have beside the sign."""


class JsonFormat(BulkFormat):
    name = "json"

    def __init__(self, schema: pa.Schema, *, threads: bool = True, kernel: bool = _IS_COMPILED) -> None:
        super().__init__(schema)
        self._threads = threads
        self._kernel = kernel

    def decode(self, values: pa.Array, names: Sequence[str]) -> Decoding:
        fields = self._fields(names) if self._kernel and len(values) and is_text(values) else None
        made = None if fields is None else self._by_kernel(values, names, fields)
        return super().decode(values, names) if made is None else made

    def parse(self, values: pa.Array, wanted: pa.Schema) -> Parsed | None:
        text = _lines(values)
        if text is None:
            return None
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        reading = pa.json.ReadOptions(use_threads=self._threads, block_size=max(_BLOCK_BYTES, 2 * longest + 2))
        # A name that no object has, so that objects without any wanted field are rows, too.
        fields = wanted if len(wanted) else pa.schema([("\0", pa.null())])
        parsing = pa.json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore")
        try:
            table = pa.json.read_json(pa.BufferReader(text), reading, parsing)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != len(values):
            return None
        return {name: _whole(table.column(name)) for name in wanted.names}

    def fault(self, value: bytes) -> str:
        try:
            found = json.loads(value)
        except (ValueError, RecursionError) as error:
            return f"no JSON: {error}"
        if not isinstance(found, dict):
            return "no JSON object"
        for field in self.schema:
            if self.parse(pa.array([value]), pa.schema([field])) is None:
                return f"the field {field.name} is no {field.type}"
        return super().fault(value)

    def _fields(self, names: Sequence[str]) -> list[Field] | None:
        """For the kernel; None if there is a type that it does not know."""
        made = []
        for name in names:
            kind = self.schema.field(name).type
            if pa.types.is_string(kind) or pa.types.is_timestamp(kind):
                made.append(Field(name.encode(), TEXT))
            elif kind in _INTEGERS:
                bits = _INTEGERS[kind]
                made.append(Field(name.encode(), INTEGER, -1 << bits, (1 << bits) - 1))
            elif pa.types.is_boolean(kind):
                made.append(Field(name.encode(), BOOLEAN))
            elif pa.types.is_float64(kind):
                made.append(Field(name.encode(), NUMBER))
            else:
                return None
        return made

    def _by_kernel(self, values: pa.Array, names: Sequence[str], fields: list[Field]) -> Decoding | None:
        marks, bounds, content = values.buffers()
        data = b"" if content is None else content.to_pybytes()
        objects = Objects(fields)
        nulls = b"" if marks is None else marks.to_pybytes()
        objects.take(data, bounds.to_pybytes(), nulls, values.offset, len(values))
        later = objects.later
        if len(later) > len(values) // 2:
            return None
        try:
            columns = {
                name: _column(field, self.schema.field(name).type, data, len(values))
                for name, field in zip(names, fields, strict=True)
            }
        except pa.ArrowInvalid:
            return None  # a text that is no instant
        if not later:
            return Decoding(columns, None)
        mask = bytearray(len(values))
        for row in later:
            mask[row] = 1
        chosen = pa.Array.from_buffers(pa.uint8(), len(values), [None, pa.py_buffer(mask)]).cast(pa.bool_())
        rest = super().decode(values.filter(chosen), names)
        merged = {name: pc.replace_with_mask(columns[name], chosen, rest.columns[name]) for name in names}
        if rest.malformed is None:
            return Decoding(merged, None)
        fine = pa.repeat(pa.scalar(False), len(values))
        return Decoding(merged, pc.replace_with_mask(fine, chosen, rest.malformed))


def _column(field: Field, kind: pa.DataType, data: bytes, rows: int) -> pa.Array:
    if field.kind == INTEGER:
        buffers = [pa.py_buffer(field.marks()), pa.py_buffer(field.numbers())]
        return pa.Array.from_buffers(pa.int64(), rows, buffers).cast(kind)
    if field.kind == BOOLEAN:
        return pa.Array.from_buffers(kind, rows, [pa.py_buffer(field.marks()), pa.py_buffer(field.trues())])
    return gathered(field.spans, data).view(pa.string()).cast(kind)


def _lines(values: pa.Array) -> pa.Buffer | None:
    """Every value on a line of its own; None if they are not all such that the reader may see them."""
    try:
        # The reader takes any bytes for text.
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    if texts.null_count:
        texts = pc.fill_null(texts, pa.scalar("{}"))
    if not _all_begin_as_objects(texts) and not _all_begin_as_objects(pc.ascii_ltrim_whitespace(texts)):
        return None
    # Between the tokens of a value that is written over many lines; within a string there can be none.
    if pc.any(pc.match_substring(texts, "\n")).as_py():
        texts = pc.replace_substring(texts, "\n", " ")
    text = joined(texts, "\n")
    if _NULL_BEHIND_OBJECT.search(text) and not (len(texts) == 1 and _is_object(texts[0].as_py())):
        return None
    return text


def _all_begin_as_objects(texts: pa.Array) -> bool:
    begin: bool = pc.all(pc.starts_with(texts, "{")).as_py()
    return begin


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
