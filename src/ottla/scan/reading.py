"""Ranges of partitions to record batches, from brokers; from files it is ``localreading``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from ottla.scan.cluster import EARLIEST, LATEST, NO_OFFSET, Catalog, Cluster, TopicPartition
from ottla.scan.columns import EVERYTHING, Filter, batch_of
from ottla.scan.decoding import Decoded, Run, Source, decode
from ottla.scan.fetching import Fetching, Range, fetch
from ottla.scan.kernel import TIMESTAMP_MIN

AT_ONCE = 8
"""Partitions that are read at the same time: each has a connection and a response under way."""


def ranges(
    cluster: Catalog, places: Iterable[TopicPartition], passing: Filter = EVERYTHING, *, read_committed: bool = False
) -> list[Range]:
    """What of these partitions has to be read: all that is there now, without what a filter certainly leaves out."""
    chosen = [place for place in places if passing.wants(*place)]
    if passing.is_empty or not chosen:
        return []
    ends = cluster.offsets(dict.fromkeys(chosen, LATEST), read_committed=read_committed)
    if passing.timestamp_from > TIMESTAMP_MIN:
        starts = cluster.offsets(dict.fromkeys(chosen, max(passing.timestamp_from, 0)))
        starts = {place: ends[place] if found == NO_OFFSET else found for place, found in starts.items()}
    else:
        starts = cluster.offsets(dict.fromkeys(chosen, EARLIEST))
    wanted = [
        Range(place, max(starts[place], passing.first_offset), min(ends[place], passing.end_offset)) for place in chosen
    ]
    return [one for one in wanted if len(one)]


def read(
    cluster: Cluster,
    wanted: Iterable[Range],
    names: frozenset[str],
    passing: Filter = EVERYTHING,
    how: Fetching = Fetching(),  # noqa: B008  # frozen
) -> Iterator[Decoded]:
    """The wanted columns of all ranges. Those of one range come in order, ranges in any."""
    for one, run in _in_turn(cluster, wanted, how):
        within = passing.both(Filter(first_offset=one.start, end_offset=one.end))
        yield from decode(run, Source(*one.place), names, within)


def batches(
    cluster: Cluster,
    wanted: Iterable[Range],
    schema: pa.Schema,
    passing: Filter = EVERYTHING,
    how: Fetching = Fetching(),  # noqa: B008  # frozen
) -> Iterator[pa.RecordBatch]:
    """Raw columns as record batches."""
    for found in read(cluster, wanted, frozenset(schema.names), passing, how):
        yield batch_of(schema, found.arrays, found.rows)


def _in_turn(cluster: Cluster, wanted: Iterable[Range], how: Fetching) -> Iterator[tuple[Range, Run]]:
    """A run of each range after the other, so that brokers answer one while another is decoded."""
    waiting = deque(wanted)
    reading: deque[tuple[Range, Iterator[Run]]] = deque()
    try:
        while waiting or reading:
            while waiting and len(reading) < AT_ONCE:
                one = waiting.popleft()
                reading.append((one, fetch(cluster, one, how)))
            one, runs = reading.popleft()
            run = next(runs, None)
            if run is not None:
                reading.append((one, runs))
                yield one, run
    finally:
        for _, runs in reading:
            runs.close()  # type: ignore[attr-defined]  # a generator
