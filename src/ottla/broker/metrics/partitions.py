"""Topics and partitions: what went in and out, how large logs are, which are short of replicas.

What belongs to one partition is told by its leader alone, or sums over brokers would count it several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.broker.metrics.families import Family, Labels, labelled, one
from ottla.log import Log
from ottla.metadata.image import Image
from ottla.replica.partition import Partition

_TRAFFIC = (
    ("bytesin", "Bytes of records that clients sent.", "bytes_in"),
    ("bytesout", "Bytes of records that clients were sent.", "bytes_out"),
    ("messagesin", "Records that clients sent.", "records_in"),
    ("replicationbytesin", "Bytes of records fetched from leaders.", "replicated_bytes_in"),
    ("replicationbytesout", "Bytes of records that followers fetched.", "replicated_bytes_out"),
)


class Totals:
    """What all topics together have seen. A topic that is deleted takes its own numbers with it, and not these."""

    def __init__(self) -> None:
        self._total: dict[str, int] = {}
        self._seen: dict[tuple[Log, str], int] = {}

    def add(self, partitions: Iterable[Partition], attribute: str) -> int:
        """The sum since the broker started, with what came since the last time."""
        total = self._total.get(attribute, 0)
        logs = {partition.log for partition in partitions}
        for log in logs:
            now: int = getattr(log, attribute)
            total += now - self._seen.get((log, attribute), 0)
            self._seen[log, attribute] = now
        gone = [key for key in self._seen if key[1] == attribute and key[0] not in logs]
        for key in gone:
            del self._seen[key]
        self._total[attribute] = total
        return total


def families(partitions: list[Partition], totals: Totals) -> Iterator[Family]:
    for name, doc, attribute in _TRAFFIC:
        by_topic: dict[str, int] = {}
        for partition in partitions:
            topic = partition.where.topic
            by_topic[topic] = by_topic.get(topic, 0) + int(getattr(partition.log, attribute))
        samples: list[tuple[Labels, float]] = [((), totals.add(partitions, attribute))]
        samples += [(labelled(topic=topic), value) for topic, value in by_topic.items()]
        yield Family(f"kafka_server_brokertopicmetrics_{name}_total", doc, samples)
    led = [partition for partition in partitions if partition.is_leader]
    yield one("kafka_server_replicamanager_leadercount", "Partitions that are led here.", len(led))
    yield one("kafka_server_replicamanager_partitioncount", "Replicas that are here.", len(partitions))
    short = sum(len(partition.isr) < len(partition.replicas) for partition in led)
    yield one("kafka_server_replicamanager_underreplicatedpartitions", "Led here, with replicas out of sync.", short)
    under = sum(partition.is_under_min_isr for partition in led)
    yield one("kafka_server_replicamanager_underminisrpartitioncount", "Led here, with too few in sync.", under)
    at = sum(len(partition.isr) == partition.min_insync_replicas for partition in led)
    yield one("kafka_server_replicamanager_atminisrpartitioncount", "Led here, with just enough in sync.", at)
    yield from _each_led(led)
    yield from _logs(partitions)


def _each_led(led: list[Partition]) -> Iterator[Family]:
    def family(name: str, doc: str, value: list[float]) -> Family:
        return Family(f"kafka_cluster_partition_{name}", doc, list(zip(map(_where, led), value, strict=True)))

    yield family("underminisr", "Fewer replicas in sync than are needed.", [each.is_under_min_isr for each in led])
    at = [len(each.isr) == each.min_insync_replicas for each in led]
    yield family("atminisr", "Just as many replicas in sync as are needed.", list(map(float, at)))
    yield family("replicascount", "Replicas.", [float(len(each.replicas)) for each in led])


def _logs(partitions: list[Partition]) -> Iterator[Family]:
    def family(name: str, doc: str, value: list[float]) -> Family:
        return Family(f"kafka_log_log_{name}", doc, list(zip(map(_where, partitions), value, strict=True)))

    yield family("size", "Bytes on disk.", [float(each.log.size) for each in partitions])
    yield family("logendoffset", "Where the log ends.", [float(each.log.log_end_offset) for each in partitions])
    yield family("logstartoffset", "Where the log starts.", [float(each.log.log_start_offset) for each in partitions])
    yield family("numlogsegments", "Segments.", [float(len(each.log.segments)) for each in partitions])


def exporter(partitions: list[Partition], image: Image) -> Iterator[Family]:
    """The same under kafka_exporter's names."""
    led = [partition for partition in partitions if partition.is_leader]

    def family(name: str, doc: str, value: list[float]) -> Family:
        return Family(f"kafka_topic_partition_{name}", doc, list(zip(map(_where, led), value, strict=True)))

    yield family("current_offset", "The end of a partition.", [float(each.log.high_watermark) for each in led])
    yield family("oldest_offset", "The start of a partition.", [float(each.log.log_start_offset) for each in led])
    yield family("leader", "The broker that leads.", [float(each.leader) for each in led])
    preferred = [float(bool(each.replicas) and each.replicas[0] == each.leader) for each in led]
    yield family("leader_is_preferred", "Whether that is the first of the replicas.", preferred)
    yield family("replicas", "Replicas.", [float(len(each.replicas)) for each in led])
    yield family("in_sync_replica", "Replicas in sync.", [float(len(each.isr)) for each in led])
    short = [float(len(each.isr) < len(each.replicas)) for each in led]
    yield family("under_replicated_partition", "Whether replicas are out of sync.", short)
    first = [partition for partition in led if partition.where.partition == 0]
    counts: list[tuple[Labels, float]] = [
        (labelled(topic=each.where.topic), len(image.topics[each.where.topic].partitions))
        for each in first
        if each.where.topic in image.topics
    ]
    yield Family("kafka_topic_partitions", "Partitions of a topic, told by the leader of the first.", counts)


def _where(partition: Partition) -> Labels:
    return labelled(topic=partition.where.topic, partition=partition.where.partition)
