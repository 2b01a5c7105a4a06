"""Topics of a live cluster, as the source of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.scan.cluster import Cluster, TopicPartition
from ottla.scan.columns import EVERYTHING, Filter
from ottla.scan.decoding import Decoded
from ottla.scan.errors import UnknownTopicError
from ottla.scan.fetching import Fetching, Range
from ottla.scan.reading import ranges, read


class ClusterSource:
    """Topics of a live cluster."""

    def __init__(self, cluster: Cluster, *, read_committed: bool = False) -> None:
        self._cluster = cluster
        self._read_committed = read_committed

    def topics(self) -> list[str]:
        return list(self._cluster.topics())

    def ranges(self, topic: str, passing: Filter = EVERYTHING) -> list[Range]:
        found = self._cluster.partitions([topic])
        if topic not in found:
            raise UnknownTopicError(f"there is no topic {topic} in this cluster")
        places = [TopicPartition(topic, partition) for partition in found[topic]]
        return ranges(self._cluster, places, passing, read_committed=self._read_committed)

    def read(self, wanted: Sequence[Range], names: frozenset[str], passing: Filter = EVERYTHING) -> Iterator[Decoded]:
        return read(self._cluster, wanted, names, passing, Fetching(read_committed=self._read_committed))

    def samples(self, wanted: Sequence[Range], names: frozenset[str], fetch_bytes: int) -> Iterator[Decoded]:
        how = Fetching(read_committed=self._read_committed, fetch_bytes=fetch_bytes)
        return read(self._cluster, wanted, names, EVERYTHING, how)

    def close(self) -> None:
        self._cluster.close()
