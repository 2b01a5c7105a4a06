"""What a topic holds, guessed from some of its records: the first and the last of every partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from ottla.scan.decoding import Decoded
from ottla.scan.fetching import Range
from ottla.scan.formats.base import Format, is_text
from ottla.scan.formats.inference import infer
from ottla.scan.formats.jsonlines import JsonFormat
from ottla.scan.formats.plain import PlainFormat
from ottla.scan.typed import Table

RECORDS = 250
"""Looked at from each end of a partition."""
PARTITIONS = 8
FETCH_BYTES = 128 << 10

COLUMNS = frozenset(("key", "value"))


class Samples(NamedTuple):
    keys: pa.Array
    values: pa.Array


def ends(ranges: Iterable[Range]) -> list[Range]:
    """The parts of these ranges that are worth a look."""
    found = []
    for one in list(ranges)[:PARTITIONS]:
        middle = min(one.start + RECORDS, one.end)
        found.append(Range(one.place, one.start, middle))
        found.append(Range(one.place, max(middle, one.end - RECORDS), one.end))
    return [one for one in found if len(one)]


def gather(decoded: Iterable[Decoded]) -> Samples:
    found = list(decoded)
    keys = [one.arrays["key"] for one in found] or [pa.array([], pa.binary())]
    values = [one.arrays["value"] for one in found] or [pa.array([], pa.binary())]
    return Samples(pa.concat_arrays(keys), pa.concat_arrays(values))


def guess(samples: Samples, form: Format | None = None, *, in_sql: bool = False) -> Table:
    """A table of what samples look like; of ``form`` if that is known."""
    text_values = is_text(samples.values)
    if form is None:
        schema = infer(samples.values.to_pylist())
        form = PlainFormat(text=text_values) if schema is None else JsonFormat(schema)
    return Table(form, text_keys=is_text(samples.keys), text_values=text_values, in_sql=in_sql)
