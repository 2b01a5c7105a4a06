"""The row of a log's segments: which of them holds an offset, what is read from there, and what is not on disk as it is.

    bases      0 ──────── 1042 ──────── 2310 ───────►
    segments   first      …             active          the last is the one that is appended to

The first offset of each is kept beside them, so an offset is found by bisection in memory. A segment ends where the next one
starts, the last where the log does; the row does not know where that is and is told.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from ottla.base.errors import CorruptionError
from ottla.log.batches import Located
from ottla.log.files import Health
from ottla.log.outcomes import Fetched
from ottla.log.segment import FileRange, Segment
from ottla.log.txnindex import AbortedTxn


class LogSegments:
    """The segments of one log, in order. Its methods raise ``OSError``; what that means is for the log to say."""

    def __init__(self, segments: list[Segment], health: Health) -> None:
        self.row = segments
        self.bases = [segment.base_offset for segment in segments]
        self.sealed: list[Segment] = []
        """Since the last flush, so perhaps not on disk as they are."""
        self.tail_is_known = False
        self._health = health

    @property
    def active(self) -> Segment:
        return self.row[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.row)

    def number(self, offset: int) -> int:
        """The segment that holds ``offset``; the first if it lies before all."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def behind(self, offset: int) -> list[Segment]:
        """The segment that holds ``offset``, and all that follow."""
        return self.row[self.number(offset) :]

    def named(self, bases: Sequence[int]) -> list[Segment]:
        """As many segments as there are ``bases``, from where the first of these is."""
        start = bisect_left(self.bases, bases[0])
        return self.row[start : start + len(bases)]

    # What there is.

    def read(self, offset: int, max_bytes: int, *, upper: int, log_end_offset: int, min_one: bool) -> Fetched:
        """Where the batches from ``offset`` on lie, up to ``max_bytes`` and to the offset ``upper``, within one segment."""
        for number in range(self.number(offset), len(self.row)):
            located = self.row[number].locate(offset)
            if located is not None:
                return self._range(number, located, max_bytes, upper, log_end_offset, min_one=min_one)
        return Fetched(None, upper)

    def _range(
        self, number: int, located: Located, max_bytes: int, upper: int, log_end_offset: int, *, min_one: bool
    ) -> Fetched:
        segment = self.row[number]
        end = self.bases[number + 1] if number + 1 < len(self.bases) else log_end_offset
        size = segment.size
        if upper < end:
            behind = segment.locate(upper)
            size = segment.size if behind is None else behind.position
            end = upper
        wanted = max(max_bytes, located.header.size) if min_one else max_bytes
        length = min(wanted, size - located.position)
        if length < located.header.size:
            return Fetched(None, located.header.base_offset)  # part of a batch is of no use to anyone
        if located.position < segment.found.end:
            length = _sound(segment, located, length, end)
        found = FileRange(segment.file, located.position, length, self._health)
        return Fetched(found, end, segment if located.position + length < size else None)

    def aborted_transactions(self, start: int, upper_bound: int) -> list[AbortedTxn]:
        """The aborted transactions that reach into ``[start, upper_bound)``."""
        found = []
        for segment in self.behind(start):
            for aborted in segment.txn_index.all():
                if aborted.last_offset >= start and aborted.first_offset < upper_bound:
                    found.append(aborted)
                if aborted.last_stable_offset >= upper_bound:
                    return found
        return found

    def check_tail(self, log_end_offset: int) -> None:
        """Before the first append behind what was found: it ends where the log is said to end, and with a whole batch."""
        end = self.active.next_offset()
        if end != log_end_offset:
            path = self.active.file.path
            raise CorruptionError(f"{path}: it does not end at offset {log_end_offset}, as it did when it was closed")
        self.tail_is_known = True

    def batches(self, offset: int) -> Iterator[Located]:
        """The headers of all batches that reach ``offset`` or lie behind it."""
        for segment in self.behind(offset):
            for located in segment.batches(segment.offset_index.lookup(offset).position):
                if located.header.last_offset >= offset:
                    yield located

    # What becomes of it.

    def add(self, segment: Segment) -> None:
        self.row.append(segment)
        self.bases.append(segment.base_offset)

    def drop_first(self) -> Segment:
        self.bases.pop(0)
        return self._dropped(self.row.pop(0))

    def drop_last(self) -> Segment:
        self.bases.pop()
        return self._dropped(self.row.pop())

    def _dropped(self, segment: Segment) -> Segment:
        self.forget_sealed(segment)
        return segment

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put ``new`` where ``old`` were: they follow each other, and it starts where they do."""
        start = bisect_left(self.bases, new.base_offset)
        self.row[start : start + len(old)] = [new]
        self.bases[start : start + len(old)] = [new.base_offset]
        for segment in old:
            self.forget_sealed(segment)

    def forget_sealed(self, segment: Segment) -> None:
        if segment in self.sealed:
            self.sealed.remove(segment)


def _sound(segment: Segment, located: Located, length: int, behind: int) -> int:
    """How many of the ``length`` bytes that were in the file when it was opened may be served."""
    start = located.position
    first_end = start + located.header.size
    sound_to = segment.found.sound_to(segment.file, start, start + length, first_end=first_end, behind=behind)
    if sound_to == start:
        raise CorruptionError(f"{segment.file.path}: the batch at byte {start} is damaged")
    return sound_to - start
