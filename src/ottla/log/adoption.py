"""What lies in the log directories of a stopped broker, Apache Kafka's or Ottla's, whose cluster may be gone. Read only.

Names, ids and epochs of topics are in the directories. Their settings are not: they went with the ensemble. That a topic was
compacted is known only from the checkpoint of the cleaner, and from the names of Kafka's own topics.

``largest_producer_id`` says which producer ids must not be given out again: a partition that remembers one would take a new
producer's records for those of the old one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from ottla.base.errors import ConfigError, CorruptionError
from ottla.log.checkpoints import MetaProperties, TopicPartition, read_meta_properties, read_offsets
from ottla.log.directory import CLEANER_OFFSETS, LOCK, META_PROPERTIES, check_distinct
from ottla.log.inspect import (
    PartitionFiles,
    StoredBatch,
    find_emptied,
    find_partitions,
    read_partition,
    read_records,
    read_segment,
)
from ottla.log.producers import decode_snapshot

GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
_METADATA_TOPIC = "__cluster_metadata"  # of KRaft: no topic, but its registry


@dataclass(frozen=True)
class FoundPartition:
    where: TopicPartition
    directory: Path
    leader_epoch: int
    """The latest that anything was written under; -1 if that is not known."""
    segments: int
    bytes: int


@dataclass(frozen=True)
class FoundTopic:
    name: str
    topic_id: UUID | None
    partitions: tuple[FoundPartition, ...]
    is_compacted: bool

    @property
    def missing(self) -> list[int]:
        """Numbers below the largest that are not here: other brokers had them."""
        numbers = {each.where.partition for each in self.partitions}
        return [number for number in range(max(numbers)) if number not in numbers]


@dataclass
class Survey:
    meta: MetaProperties
    topics: dict[str, FoundTopic] = field(default_factory=dict)
    largest_producer_id: int = -1
    stopped_cleanly: bool = True
    passed_over: list[Path] = field(default_factory=list)
    emptied: list[Path] = field(default_factory=list)
    """Partitions without a segment."""


def survey(directories: Sequence[Path]) -> Survey:
    """Look through the log directories of one broker. ConfigError if they are none, or in use, or not of one broker."""
    check_distinct(directories)
    found = Survey(_owner(directories))
    partitions: dict[str, list[tuple[FoundPartition, UUID | None]]] = {}
    compacted = set()
    for directory in directories:
        _check_unused(directory)
        compacted |= {where.topic for where in read_offsets(directory / CLEANER_OFFSETS)}
        found.emptied += find_emptied(directory)
        for folder in find_partitions(directory):
            files = read_partition(folder)
            found.stopped_cleanly &= files.was_stopped_cleanly
            if files.topic_partition is None or files.topic_partition.topic == _METADATA_TOPIC:
                found.passed_over.append(folder)
                continue
            if files.unreadable:
                path, reason = files.unreadable[0]
                raise CorruptionError(f"{path}: {reason}")
            found.largest_producer_id = max(found.largest_producer_id, _largest_producer_id(files))
            partitions.setdefault(files.topic_partition.topic, []).append((_partition(files), files.topic_id))
    compacted |= {GROUP_TOPIC, TRANSACTION_TOPIC}
    for name, each in sorted(partitions.items()):
        found.topics[name] = _topic(name, each, is_compacted=name in compacted)
    return found


def _owner(directories: Sequence[Path]) -> MetaProperties:
    owners: dict[MetaProperties, Path] = {}
    for directory in directories:
        meta = read_meta_properties(directory / META_PROPERTIES)
        if meta is None:
            raise ConfigError(f"{directory}: there is no {META_PROPERTIES}, so this is no log directory of a broker")
        owners.setdefault(meta, directory)
    if len(owners) > 1:
        told = " and ".join(f"{path} to broker {m.broker_id} of cluster {m.cluster_id}" for m, path in owners.items())
        raise ConfigError(f"the directories are not those of one broker: {told}")
    return next(iter(owners))


def _check_unused(directory: Path) -> None:
    """As a broker that uses it holds its lock. Nothing is made for that: where there is no such file, nobody does."""
    try:
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(f"{directory} is in use by a broker; stop it first") from error
    finally:
        os.close(fd)


def _partition(files: PartitionFiles) -> FoundPartition:
    assert files.topic_partition is not None
    sizes = [path.stat().st_size for path in files.segments]
    epoch = max((epoch for epoch, _ in files.epochs), default=-1)
    return FoundPartition(files.topic_partition, files.directory, epoch, len(sizes), sum(sizes))


def _topic(name: str, found: list[tuple[FoundPartition, UUID | None]], *, is_compacted: bool) -> FoundTopic:
    by_number: dict[int, Path] = {}
    for partition, _ in found:
        other = by_number.setdefault(partition.where.partition, partition.directory)
        if other != partition.directory:
            raise ConfigError(f"{partition.where} is both {other} and {partition.directory}")
    ids = {topic_id for _, topic_id in found if topic_id is not None}
    if len(ids) > 1:
        raise ConfigError(f"the partitions of {name} belong to different topics of that name: {len(ids)} ids")
    partitions = tuple(sorted((partition for partition, _ in found), key=lambda each: each.where))
    return FoundTopic(name, next(iter(ids), None), partitions, is_compacted)


def _largest_producer_id(files: PartitionFiles) -> int:
    """Of those that the newest snapshot remembers, that wrote behind it, or that transactional ids stand for."""
    largest, behind = -1, 0
    is_transactions = files.topic_partition is not None and files.topic_partition.topic == TRANSACTION_TOPIC
    for path in reversed(files.snapshots):
        try:
            entries = decode_snapshot(path.read_bytes(), path)
        except CorruptionError:
            continue  # a crash may tear one; the one before tells less, and the segments behind it the rest
        largest = max((entry.producer_id for entry in entries), default=-1)
        behind = int(path.stem)
        if files.was_stopped_cleanly and not is_transactions:
            return largest  # written when the broker stopped, so nothing lies behind it
        break
    ends = [int(path.stem) for path in files.segments[1:]]
    for path, end in zip(files.segments, [*ends, 1 << 63], strict=True):
        if end <= behind and not is_transactions:
            continue
        for batch in read_segment(path):
            if isinstance(batch, StoredBatch) and batch.header is not None:
                largest = max(largest, batch.header.producer_id)
                if is_transactions:
                    largest = max(largest, *_transactional(path, batch), -1)
    return largest


def _transactional(path: Path, batch: StoredBatch) -> list[int]:
    """The producer ids in what the transaction coordinator wrote: each value begins with a version and its id."""
    values = [record.value for record in read_records(path, batch)]
    return [int.from_bytes(value[2:10], signed=True) for value in values if value is not None and len(value) >= 10]
