"""Where a read starts and ends, asked of the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from ottla.scan.cluster import EARLIEST, LATEST, NO_OFFSET, Catalog, TopicPartition
from ottla.scan.errors import OptionError, UnknownTopicError
from pyspark_ottla.options import ReadOptions, Start, matches

Offsets = dict[TopicPartition, int]


def subscribed(cluster: Catalog, options: ReadOptions) -> list[TopicPartition]:
    """The partitions that are read, as they are now. A topic that is named and not there is an error."""
    if options.assigned:
        found = cluster.partitions([place.topic for place in options.assigned])
        missing = [place for place in options.assigned if place.partition not in found.get(place.topic, ())]
        if missing:
            raise UnknownTopicError(f"there is no partition {missing[0]} in this cluster")
        return sorted(options.assigned)
    if options.pattern is not None:
        every = cluster.topics()
        found = {topic: every[topic] for topic in every if matches(options.pattern, topic)}
    else:
        found = cluster.partitions(options.topics)
        missing_topics = [topic for topic in options.topics if topic not in found]
        if missing_topics:
            raise UnknownTopicError(f"there is no topic {missing_topics[0]} in this cluster")
    return sorted(TopicPartition(topic, partition) for topic, partitions in found.items() for partition in partitions)


def latest(cluster: Catalog, places: Iterable[TopicPartition], options: ReadOptions) -> Offsets:
    return cluster.offsets(dict.fromkeys(places, LATEST), read_committed=options.read_committed)


def earliest(cluster: Catalog, places: Iterable[TopicPartition]) -> Offsets:
    return cluster.offsets(dict.fromkeys(places, EARLIEST))


def starting(cluster: Catalog, places: list[TopicPartition], options: ReadOptions) -> Offsets:
    start = options.start
    if start.timestamp is not None:
        return _by_time(cluster, dict.fromkeys(places, start.timestamp), options)
    if start.by_timestamp is not None:
        _check_all("startingOffsetsByTimestamp", start.by_timestamp, places)
        return _by_time(cluster, start.by_timestamp, options)
    if start.relative_ms is not None:
        since = int(time.time() * 1000) - start.relative_ms
        found = cluster.offsets(dict.fromkeys(places, since))
        ends = latest(cluster, places, options)
        return {place: ends[place] if offset == NO_OFFSET else offset for place, offset in found.items()}
    if start.relative_records is not None:
        ends, starts = latest(cluster, places, options), earliest(cluster, places)
        return {place: max(ends[place] - start.relative_records, starts[place]) for place in places}
    return _named("startingOffsets", cluster, places, start, options)


def ending(cluster: Catalog, places: list[TopicPartition], options: ReadOptions) -> Offsets:
    """Where a batch ends: the first record that is not read. What is asked for by time and not there means the end of now."""
    end = options.end
    ends = latest(cluster, places, options)
    wanted = end.by_timestamp if end.timestamp is None else dict.fromkeys(places, end.timestamp)
    if wanted is not None:
        _check_all("endingOffsetsByTimestamp", wanted, places)
        found = cluster.offsets(wanted)
        return {place: ends[place] if offset == NO_OFFSET else offset for place, offset in found.items()}
    if end.relative_ms is not None:
        until = int(time.time() * 1000) - end.relative_ms
        found = cluster.offsets(dict.fromkeys(places, until))
        return {place: ends[place] if offset == NO_OFFSET else offset for place, offset in found.items()}
    if end.relative_records is not None:
        starts = earliest(cluster, places)
        return {place: max(ends[place] - end.relative_records, starts[place]) for place in places}
    return _named("endingOffsets", cluster, places, end, options)


def _named(name: str, cluster: Catalog, places: list[TopicPartition], start: Start, options: ReadOptions) -> Offsets:
    if start.offsets is None:
        return latest(cluster, places, options) if start.named == "latest" else earliest(cluster, places)
    _check_all(name, start.offsets, places)
    symbolic = {place: offset for place, offset in start.offsets.items() if offset in (EARLIEST, LATEST)}
    found = {
        **earliest(cluster, [place for place, offset in symbolic.items() if offset == EARLIEST]),
        **latest(cluster, [place for place, offset in symbolic.items() if offset == LATEST], options),
    }
    return {place: found.get(place, offset) for place, offset in start.offsets.items()}


def _by_time(cluster: Catalog, wanted: Mapping[TopicPartition, int], options: ReadOptions) -> Offsets:
    found = cluster.offsets(wanted)
    unmatched = [place for place, offset in found.items() if offset == NO_OFFSET]
    if unmatched and not options.no_match_is_latest:
        place = unmatched[0]
        raise OptionError(
            f"no record of {place} is as late as {wanted[place]}; "
            "startingOffsetsByTimestampStrategy=latest starts at the end then"
        )
    return {**found, **latest(cluster, unmatched, options)}


def _check_all(name: str, given: Iterable[TopicPartition], places: list[TopicPartition]) -> None:
    """As in Spark's connector: all partitions have to be named, and no others."""
    if set(given) != set(places):
        missing = ", ".join(map(str, sorted(set(places) - set(given))))
        unknown = ", ".join(map(str, sorted(set(given) - set(places))))
        told = "; ".join(
            part for part in (missing and f"missing: {missing}", unknown and f"not read: {unknown}") if part
        )
        raise OptionError(f"{name} has to name every partition that is read, and no other ({told})")
