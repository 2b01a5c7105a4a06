"""What a filter expression says about where a record lies: which partitions, offsets and times can pass at all.

An Arrow expression cannot be taken apart from Python, and its text is no safe thing to read. But Arrow itself knows whether an
expression can be true under a guarantee: that is how it leaves out files of a partitioned dataset. So it is asked, about a file
that is never opened: can the filter be true if ``_offset < n``? The bound is where the answer changes, and is found by halving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs

from ottla.scan.columns import TIMESTAMP, Filter
from ottla.scan.kernel import OFFSET_MAX, TIMESTAMP_MAX, TIMESTAMP_MIN

_FORMAT = pa.dataset.IpcFileFormat()
_FILES = pa.fs.LocalFileSystem()
_YEAR_9999_MS = 253_402_300_800_000


def implied(expression: pc.Expression, schema: pa.Schema, partitions: Iterable[int], ends: Iterable[int]) -> Filter:
    """A filter that lets pass whatever ``expression`` lets pass, and as little else as can be known."""

    def can_be(guarantee: pc.Expression) -> bool:
        fragment = _FORMAT.make_fragment("-", _FILES, partition_expression=guarantee)
        dataset = pa.dataset.FileSystemDataset([fragment], schema, _FORMAT, _FILES)
        return any(True for _ in dataset.get_fragments(expression))

    partition, offset, timestamp = pc.field("_partition"), pc.field("_offset"), pc.field("_timestamp")
    chosen = frozenset(one for one in partitions if can_be(partition == pa.scalar(one, pa.int32())))
    end = max(ends, default=0)
    first = _smallest(0, end, lambda bound: can_be(offset <= bound))
    last = _largest(first, end, lambda bound: can_be(offset >= bound))
    early = _smallest(-1, _YEAR_9999_MS, lambda bound: can_be(timestamp <= _instant(bound)))
    late = _largest(early, _YEAR_9999_MS, lambda bound: can_be(timestamp >= _instant(bound)))
    return Filter(
        first_offset=first,
        end_offset=OFFSET_MAX if last >= end else last + 1,
        timestamp_from=TIMESTAMP_MIN if early <= -1 else early,
        # Milliseconds are whole, the expression may not be: one more does no harm.
        timestamp_until=TIMESTAMP_MAX if late >= _YEAR_9999_MS else late + 2,
        partitions=chosen,
    )


def references(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """The columns without which the expression means nothing."""

    def binds(names: list[str]) -> bool:
        fields = pa.schema([schema.field(name) for name in names])
        try:
            pa.dataset.Scanner.from_batches(iter(()), schema=fields, filter=expression)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError):
            return False
        return True

    return [name for name in schema.names if not binds([other for other in schema.names if other != name])]


def _instant(milliseconds: int) -> pa.Scalar:
    return pa.scalar(milliseconds * 1000, TIMESTAMP)


def _smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number for which it holds, as it does for all above that one; ``high`` if for none below."""
    if holds(low):
        return low
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _largest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which it holds, as it does for all below that one; ``low`` if for none above."""
    if holds(high):
        return high
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
