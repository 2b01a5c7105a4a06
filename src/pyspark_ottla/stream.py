"""A read that goes on: which offsets the next micro-batch ends at.

An offset of a stream is ``{"topic": {"0": 23}}``, as Spark's Kafka connector has it: the next record of each partition. Limits are applied
here and not by Spark, which knows one at a time and has none of its own for a minimum with a delay:

    maxOffsetsPerTrigger    shared out among partitions in proportion to what they have, at least one each
    maxBytesPerTrigger      likewise, by what a record takes about
    minOffsetsPerTrigger    nothing is read until there is so much, or maxTriggerDelay has passed

Partitions that appear are read from their beginning. Partitions that are gone, begin behind what was read, or end before it, mean
lost records: an error that says which, or a warning if ``failOnDataLoss`` is false. Whatever ends before what was read is then another
topic of the same name, and read from its beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.scan.cluster import Cluster, TopicPartition
from ottla.scan.errors import DataLossError
from ottla.scan.fetching import Range
from pyspark_ottla.batch import Part, read_part
from pyspark_ottla.conditions import parse_where
from pyspark_ottla.groups import commit_to_group
from pyspark_ottla.limits import shared_out, shared_out_bytes
from pyspark_ottla.offsets import Offsets, earliest, latest, starting, subscribed
from pyspark_ottla.options import ReadOptions
from pyspark_ottla.rows import Rows
from pyspark_ottla.sizes import record_bytes
from pyspark_ottla.splitting import split

logger = logging.getLogger(__name__)

Json = dict[str, dict[str, int]]

SETTLING_S = 5.0
PAUSE_S = 0.2


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._cluster: Cluster | None = None
        self._target: Offsets | None = None
        self._last_trigger_s = 0.0
        self._passing = parse_where(options.where)
        Rows(options, schema)  # what cannot be read is told before anything is

    def __getstate__(self) -> dict[str, Any]:
        """Workers get what they need to read, and make their own connections."""
        return {**self.__dict__, "_cluster": None, "_target": None}

    # ------------------------------------------------------------------ offsets

    def initialOffset(self) -> Json:  # noqa: N802  # Spark's
        cluster = self._connected()
        return to_json(starting(cluster, subscribed(cluster, self._options), self._options))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:  # noqa: N802  # Spark's
        begin = self._begin(from_json(start))
        ends = self._reached(begin)
        if self._target is not None:
            ends = {place: min(end, self._target[place]) for place, end in ends.items() if place in self._target}
        # What Spark does not want limited (Trigger.Once) comes with a limit that is none.
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(begin, ends)
        return to_json({**begin, **ends})

    def reportLatestOffset(self) -> Json:  # noqa: N802  # Spark's
        return to_json(self._ends())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's
        self._target = self._ends()

    # ------------------------------------------------------------------ reading

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, ends = from_json(start), from_json(end)
        added = self._added([place for place in ends if place not in begin or ends[place] < begin[place]])
        options = self._options
        wanted = [
            Range(place, added.get(place, begin.get(place, 0)), ends[place])
            for place in sorted(ends)
            if self._passing.wants(*place)
        ]
        sizes = record_bytes(self._connected(), wanted, options) if options.max_bytes_per_partition else None
        parts = split(
            wanted,
            min_parts=options.min_partitions,
            max_records=options.max_records_per_partition,
            max_bytes=options.max_bytes_per_partition,
            record_bytes=sizes,
        )
        return [Part(one) for one in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return read_part(self._options, self._schema, partition.range, self._passing)

    def commit(self, end: dict[str, Any]) -> None:
        if self._options.commit_group is not None:
            commit_to_group(self._options, self._options.commit_group, from_json(end))

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    # ------------------------------------------------------------------ limits

    def _limited(self, begin: Offsets, ends: Offsets) -> Offsets:
        options = self._options
        ranges = [Range(place, begin.get(place, 0), end) for place, end in ends.items()]
        there = sum(len(one) for one in ranges)
        least = options.min_offsets_per_trigger
        now = monotonic()
        if least is not None and there < least and self._target is None:
            waited_ms = (now - self._last_trigger_s) * 1000
            if not there or waited_ms < options.max_trigger_delay_ms:
                if not self._last_trigger_s:
                    self._last_trigger_s = now
                return {place: begin[place] for place in ends if place in begin}
        self._last_trigger_s = now
        if options.max_offsets_per_trigger is not None:
            ends = shared_out(ranges, options.max_offsets_per_trigger)
            ranges = [Range(one.place, one.start, ends[one.place]) for one in ranges]
        if options.max_bytes_per_trigger is not None:
            sizes = record_bytes(self._connected(), ranges, options)
            ends = shared_out_bytes(ranges, options.max_bytes_per_trigger, sizes)
        return ends

    # ------------------------------------------------------------------ partitions that come and go

    def _begin(self, start: Offsets) -> Offsets:
        """Where each partition of now goes on, new ones included."""
        places = subscribed_now(self._connected(), self._options)
        gone = sorted(set(start) - set(places))
        if gone:
            self._lost(f"partition {', '.join(map(str, gone))} is not there any more: its topic was deleted")
        kept = {place: offset for place, offset in start.items() if place in places}
        return {**kept, **self._added([place for place in places if place not in start])}

    def _added(self, places: list[TopicPartition]) -> Offsets:
        found = earliest(self._connected(), places) if places else {}
        late = {place: offset for place, offset in found.items() if offset > 0}
        if late:
            place, offset = next(iter(late.items()))
            self._lost(f"the new partition {place} begins at offset {offset}: what was before it was never read")
        return found

    def _ends(self) -> Offsets:
        cluster = self._connected()
        return latest(cluster, subscribed_now(cluster, self._options), self._options)

    def _reached(self, begin: Offsets) -> Offsets:
        """Where partitions end now. One that ends too soon is asked again: a leader just elected may not know better yet."""
        deadline = monotonic() + SETTLING_S
        while True:
            ends = self._ends()
            short = [place for place, end in sorted(ends.items()) if end < begin.get(place, 0)]
            if not short or monotonic() > deadline:
                break
            sleep(PAUSE_S)
        for place in short:
            self._lost(
                f"{place} ends at offset {ends[place]}, though all before {begin[place]} was read: the topic was made anew, "
                "or a leader was elected that lacked records"
            )
        return ends

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what}; failOnDataLoss=false goes on without it")
        logger.warning("%s", what)

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options.settings)
        return self._cluster


def subscribed_now(cluster: Cluster, options: ReadOptions) -> list[TopicPartition]:
    """As ``subscribed``, with topics that are gone left out: what that means is for the caller to say."""
    if options.pattern is not None:
        return subscribed(cluster, options)
    topics = options.topics or tuple(dict.fromkeys(place.topic for place in options.assigned))
    found = [
        TopicPartition(topic, number) for topic, numbers in cluster.partitions(topics).items() for number in numbers
    ]
    return sorted(set(found) & set(options.assigned) if options.assigned else found)


def to_json(offsets: Offsets) -> Json:
    """In one order, as Spark compares the text."""
    made: Json = {}
    for place, offset in sorted(offsets.items()):
        made.setdefault(place.topic, {})[str(place.partition)] = offset
    return made


def from_json(offsets: dict[str, Any]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }
