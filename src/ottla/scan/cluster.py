"""A cluster as a reader sees it: topics, leaders, and which offsets there are.

Whatever may pass by itself (a leader that moves, a broker that restarts, a partition without a leader) is tried again with
fresh metadata until the time is up; whatever may not is raised at once. Nothing here is shared between threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from ottla.base.errors import RemoteProtocolError
from ottla.scan.connection import Connection
from ottla.scan.errors import ScanError, UnknownTopicError, UnreachableError
from ottla.scan.settings import Settings
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

EARLIEST = -2
LATEST = -1
NO_OFFSET = -1
"""Instead of the first offset of a time, where no record is as late."""

BACKOFF_S = 0.05
BACKOFF_MAX_S = 1.0

T = TypeVar("T")


class TopicPartition(NamedTuple):
    """As the log has it, which whoever reads from brokers need not load."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class _Again(Exception):  # noqa: N818  # no error, but a reason to try again
    """Something that may pass."""


class Catalog(Protocol):
    """What there is to be read, by a live cluster or by files (``ottla.scan.offline``)."""

    def topics(self) -> dict[str, list[int]]:
        """Every topic that is not internal, with its partitions."""

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions of some topics; those that are not there are not in it."""

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """For each partition its EARLIEST or LATEST offset, or the first one of a time in ms (NO_OFFSET: none)."""


class Cluster:
    """Connections by broker, made when they are needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._connections: dict[int, Connection] = {}
        self._bootstrap: Connection | None = None
        self._cluster_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._drop_bootstrap()

    # ------------------------------------------------------------------ topics

    def topics(self) -> dict[str, list[int]]:
        """Every topic that is not internal, with its partitions."""
        answer = self.retry(lambda: self._metadata(None))
        return {
            topic.name: sorted(partition.partition_index for partition in topic.partitions)
            for topic in answer.topics
            if topic.name is not None and not topic.is_internal and not topic.error_code
        }

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions of some topics; those that are not there are not in it."""
        names = list(dict.fromkeys(topics))
        answer = self.retry(lambda: self._metadata(names))
        found = {}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.NONE and topic.name is not None:
                found[topic.name] = sorted(partition.partition_index for partition in topic.partitions)
            elif topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise ScanError(f"topic {topic.name}: {ErrorCode(topic.error_code).name}")
        return found

    def identity(self, topic: str) -> tuple[str | None, bytes | None]:
        """The ids of the cluster and of a topic, which no other of the same name has; None from brokers that know none."""
        [found] = self.retry(lambda: self._metadata([topic])).topics
        return self._cluster_id, None if found.topic_id == ZERO_UUID else found.topic_id

    # ------------------------------------------------------------------ offsets

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """For each partition its EARLIEST or LATEST offset, or the first one of a time in ms (NO_OFFSET: none)."""
        left = dict(wanted)
        found: dict[TopicPartition, int] = {}

        def attempt() -> None:
            for leader, group in self._by_leader(left).items():
                answer = self._on(leader).ask(_list_offsets(group, read_committed), ListOffsetsResponse)
                for topic in answer.topics:
                    for partition in topic.partitions:
                        place = TopicPartition(topic.name, partition.partition_index)
                        if partition.error_code == ErrorCode.NONE:
                            found[place] = partition.offset
                            left.pop(place, None)
                        else:
                            self.note_error(place, partition.error_code)
            if left:
                raise _Again(f"the offsets of {', '.join(map(str, left))} are not available")

        if left:
            self.retry(attempt)
        return found

    def log_directories(self, place: TopicPartition) -> tuple[str | None, list[str]]:
        """The cluster's id, and where the leader of a partition keeps it; nothing from a broker that does not tell."""

        def attempt() -> list[str]:
            connection = self._on(self._leader(place))
            if not connection.speaks(ApiKey.DESCRIBE_LOG_DIRS):
                return []
            topic = DescribableLogDirTopic(topic=place.topic, partitions=[place.partition])
            answer = connection.ask(DescribeLogDirsRequest(topics=[topic]), DescribeLogDirsResponse)
            return [found.log_dir for found in answer.results if found.topics and not found.error_code]

        found = self.retry(attempt)
        return self._cluster_id, found

    def connect(self, place: TopicPartition) -> Connection:
        """A connection of one's own to the leader of a partition; nobody else closes it."""

        def attempt() -> Connection:
            leader = self._leader(place)
            return self._open(leader)

        return self.retry(attempt)

    def forget(self, place: TopicPartition) -> None:
        """The leader is not known any more."""
        self._leaders.pop(place, None)

    def note_error(self, place: TopicPartition, code: int) -> None:
        """Forget the leader if that may help; raise what will not pass."""
        self.forget(place)
        try:
            error = ErrorCode(code)
        except ValueError:
            raise ScanError(f"{place}: error {code}") from None
        if not error.retriable:
            raise ScanError(f"{place}: {error.name}")

    def retry(self, attempt: Callable[[], T]) -> T:
        """Until it works or the time is up."""
        deadline = time.monotonic() + self.settings.timeout_s
        pause = BACKOFF_S
        while True:
            try:
                return attempt()
            except (_Again, OSError, RemoteProtocolError, UnreachableError) as error:
                self.close()
                self._leaders.clear()
                if time.monotonic() + pause > deadline:
                    raise UnreachableError(f"gave up after {self.settings.timeout_s:g} s: {error}") from error
            time.sleep(pause)
            pause = min(2 * pause, BACKOFF_MAX_S)

    # ------------------------------------------------------------------ connections

    def _metadata(self, topics: list[str] | None) -> MetadataResponse:
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        answer = self._any().ask(request, MetadataResponse)
        self._cluster_id = answer.cluster_id
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            for partition in topic.partitions:
                if topic.name is not None and partition.leader_id >= 0:
                    self._leaders[TopicPartition(topic.name, partition.partition_index)] = partition.leader_id
        return answer

    def _any(self) -> Connection:
        """To whichever broker answers first."""
        if self._bootstrap is not None:
            return self._bootstrap
        failed = []
        known = [*self._brokers.values(), *self.settings.bootstrap]
        for host, port in dict.fromkeys(known):
            try:
                self._bootstrap = Connection(host, port, self.settings)
                return self._bootstrap
            except OSError as error:
                failed.append(f"{host}:{port}: {error.strerror or error}")
        raise UnreachableError(f"no broker answers at {'; '.join(failed)}")

    def _drop_bootstrap(self) -> None:
        if self._bootstrap is not None:
            self._bootstrap.close()
            self._bootstrap = None

    def _by_leader(self, places: Collection[TopicPartition]) -> dict[int, list[tuple[TopicPartition, int]]]:
        grouped: dict[int, list[tuple[TopicPartition, int]]] = {}
        assert isinstance(places, dict)
        for place, timestamp in places.items():
            grouped.setdefault(self._leader(place), []).append((place, timestamp))
        return grouped

    def _leader(self, place: TopicPartition) -> int:
        if place not in self._leaders:
            answer = self._metadata([place.topic])
            for topic in answer.topics:
                indices = [partition.partition_index for partition in topic.partitions]
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (
                    topic.error_code == ErrorCode.NONE and place.partition not in indices
                ):
                    raise UnknownTopicError(f"there is no partition {place} in this cluster")
        if place not in self._leaders:
            raise _Again(f"partition {place} has no leader")
        return self._leaders[place]

    def _on(self, broker: int) -> Connection:
        if broker not in self._connections:
            self._connections[broker] = self._open(broker)
        return self._connections[broker]

    def _open(self, broker: int) -> Connection:
        if broker not in self._brokers:
            raise _Again(f"broker {broker} is not there")
        host, port = self._brokers[broker]
        return Connection(host, port, self.settings)


def _list_offsets(group: list[tuple[TopicPartition, int]], read_committed: bool) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for place, timestamp in group:
        asked = ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp)
        topics.setdefault(place.topic, []).append(asked)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
