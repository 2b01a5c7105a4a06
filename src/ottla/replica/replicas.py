"""All partitions of one broker, over its log directories.

What the controller orders is applied here: logs are made for new replicas, in the directory that holds the fewest, and
taken out when a topic is deleted. High watermarks go to a checkpoint from time to time and come back from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from ottla.log import LogConfig, LogDirectory
from ottla.log import TopicPartition as LogPartition
from ottla.metadata.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.image import Topic
from ottla.replica.errors import UnknownPartitionError, UnknownTopicIdError
from ottla.replica.partition import Partition

log = logging.getLogger(__name__)

ConfigFor = Callable[[str], LogConfig]


class Replicas:
    """The partitions on this broker, by topic name and by topic id."""

    def __init__(self, broker_id: BrokerId, directories: Sequence[LogDirectory], config_for: ConfigFor) -> None:
        self.broker_id = broker_id
        self.directories = directories
        self._config_for = config_for
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._topic_names: dict[bytes, str] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def partition(self, topic: str, index: int) -> Partition:
        found = self._partitions.get((topic, index))
        if found is None:
            raise UnknownPartitionError(f"{topic}-{index} is not on this broker")
        return found

    def topic_name(self, topic_id: bytes) -> str:
        found = self._topic_names.get(topic_id)
        if found is None:
            raise UnknownTopicIdError("no topic here has this id")
        return found

    def apply(self, topic: Topic, *, now_ms: int) -> None:
        """Take on what the controller decided about a topic; partitions of other brokers are no concern of ours."""
        if topic.topic_id is not None:
            self._topic_names[topic.topic_id] = topic.name
        for where, assignment, state in topic.leaders():
            if state is None or self.broker_id not in assignment.replicas:
                continue
            partition = self._partitions.get(where) or self._open(where, topic.topic_id, now_ms=now_ms)
            partition.become(state, assignment.replicas)

    def delete(self, topic: str, *, now_ms: int) -> None:
        """A topic is gone: so are its replicas here."""
        for key in [key for key in self._partitions if key[0] == topic]:
            partition = self._partitions.pop(key)
            if partition.topic_id is not None:
                self._topic_names.pop(partition.topic_id, None)
            partition.leader = BrokerId(-1)
            partition.wake()
            directory = self._directory_of(partition.where)
            if directory is not None:
                directory.delete(LogPartition(*partition.where), now_ms=now_ms)

    def checkpoint(self) -> None:
        """Write the high watermarks down, and how far the logs are on disk."""
        for directory in self.directories:
            marks = {
                where: self._partitions[where].log.high_watermark
                for where in directory.logs
                if where in self._partitions
            }
            directory.write_high_watermarks(marks)
            directory.checkpoint()

    def _open(self, where: TopicPartition, topic_id: TopicId | None, *, now_ms: int) -> Partition:
        directory = self._directory_of(where)
        key = LogPartition(*where)
        if directory is None:
            directory = min(self.directories, key=lambda each: len(each.logs))
            made = directory.create(
                key,
                self._config_for(where.topic),
                topic_id=None if topic_id is None else UUID(bytes=topic_id),
                now_ms=now_ms,
            )
        else:
            made = directory.logs[key]
            made.update_high_watermark(directory.read_high_watermarks().get(key, 0))
        partition = self._partitions[where] = Partition(where, topic_id, made, self.broker_id)
        return partition

    def _directory_of(self, where: TopicPartition) -> LogDirectory | None:
        key = LogPartition(*where)
        return next((directory for directory in self.directories if key in directory.logs), None)
