"""Ranges of partitions to record batches, from files: of brokers that do not run, or of those whose disks can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from ottla.scan.cluster import Cluster
from ottla.scan.columns import CONSTANT, EVERYTHING, Filter, constants
from ottla.scan.decoding import Decoded, Run, Source, decode, next_offset
from ottla.scan.errors import DataLossError
from ottla.scan.fetching import Fetching, Range
from ottla.scan.files import Counted, LogFiles, PartitionLog
from ottla.scan.reading import read


def read_files(
    files: LogFiles,
    wanted: Iterable[Range],
    names: frozenset[str],
    passing: Filter = EVERYTHING,
    *,
    read_committed: bool = False,
) -> Iterator[Decoded]:
    """The wanted columns of ranges that lie in files."""
    for one in wanted:
        within = passing.both(Filter(first_offset=one.start, end_offset=one.end))
        for found, _ in _from_log(files.log(one.place), one, names, within, read_committed=read_committed):
            yield from found


def read_both(
    files: LogFiles | None,
    cluster: Cluster,
    wanted: Range,
    names: frozenset[str],
    passing: Filter = EVERYTHING,
    how: Fetching = Fetching(),  # noqa: B008  # frozen
) -> Iterator[Decoded]:
    """A range from files as far as they may be read, and from the leader from there on.

    Files may go while they are read: retention and cleaning do not wait. The leader knows what that means.
    """
    position = wanted.start
    log = None if files is None else files.logs.get(wanted.place)
    if log is not None and log.start <= position < log.end:
        end = min(log.end, wanted.end)
        within = passing.both(Filter(first_offset=position, end_offset=end))
        with suppress(DataLossError):
            there = Range(wanted.place, position, end)
            for found, behind in _from_log(log, there, names, within, read_committed=how.read_committed):
                yield from found
                position = min(max(behind, position), end)
            position = end
    yield from read(cluster, [Range(wanted.place, position, wanted.end)], names, passing, how)


def _from_log(
    log: PartitionLog, wanted: Range, names: frozenset[str], passing: Filter, *, read_committed: bool
) -> Iterator[tuple[Iterable[Decoded], int]]:
    """What of a range passes, piece by piece, and the offset behind each."""
    source = Source(*wanted.place)
    by_headers = names <= CONSTANT and passing.is_of_places and not read_committed
    found: Iterable[Counted | Run] = (
        log.counted(max(wanted.start, passing.first_offset), min(wanted.end, passing.end_offset))
        if by_headers
        else log.runs(wanted.start, wanted.end, read_committed=read_committed)
    )
    for one in found:
        if isinstance(one, Run):
            yield decode(one, source, names, passing), next_offset(one)
        elif one.records:
            yield [Decoded(constants(names, *source, one.records), one.records)], one.next_offset
