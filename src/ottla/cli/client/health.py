"""What is wrong with a cluster, each thing once: a broker that is away is missed by all of its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from ottla.cli.client.operating import Partition
from ottla.cli.client.replanning import Where


def problems(
    partitions: Mapping[Where, Partition],
    brokers: Collection[int],
    min_insync: Mapping[str, int],
    moving: Collection[Where],
) -> Iterator[tuple[str, str]]:
    """What it concerns, and what is wrong with it. ``min_insync`` is by topic, ``moving`` may be behind."""
    away = Counter(broker for each in partitions.values() for broker in each.replicas if broker not in brokers)
    for broker, count in sorted(away.items()):
        yield f"broker {broker}", f"is away, with replicas of {count} partitions"
    for (topic, number), partition in sorted(partitions.items()):
        name = f"{topic}-{number}"
        if partition.leader < 0:
            yield name, "nobody leads it"
        if len(partition.isr) < min(min_insync.get(topic, 1), len(partition.replicas)):
            yield name, f"fewer in sync than min.insync.replicas: {partition.isr}"
        elif (topic, number) not in moving and not set(partition.replicas) <= {*partition.isr, *away}:
            yield name, f"in sync are {partition.isr} of {partition.replicas}"
