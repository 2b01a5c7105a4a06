"""Consumer groups, told by their coordinator: how many there are, how far they are, and how far behind.

Lag counts from the high watermark, of which a broker knows for partitions that it has a replica of; of others there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.errors import Error
from ottla.broker.metrics.families import Family, Labels, labelled, one
from ottla.coordinator.groups.coordinator import GroupCoordinator
from ottla.coordinator.groups.group import Group, GroupState
from ottla.replica.replicas import Replicas

_PREFIX = "kafka_coordinator_group_groupmetadatamanager_numgroups"
Samples = list[tuple[Labels, float]]


def families(coordinator: GroupCoordinator, replicas: Replicas) -> Iterator[Family]:
    groups = [group for _, shard in coordinator.runtime.active() for group in shard.groups.values()]
    yield one(_PREFIX, "Groups that are coordinated here.", len(groups))
    for state in GroupState:
        count = sum(group.state is state for group in groups)
        yield one(_PREFIX + state.value.lower(), f"Those in the state {state.value}.", count)
    yield from _exporter(groups, replicas)


def _exporter(groups: list[Group], replicas: Replicas) -> Iterator[Family]:
    offsets: Samples = []
    offset_sums: Samples = []
    lags: Samples = []
    lag_sums: Samples = []
    members: Samples = []
    for group in groups:
        name = group.group_id
        members.append((labelled(consumergroup=name), len(group.members)))
        offset_sum: dict[str, int] = {}
        lag_sum: dict[str, int] = {}
        for where in group.offsets:
            topic, index = where
            committed = group.offsets.get(where)
            if committed is None:
                continue
            labels = labelled(consumergroup=name, topic=topic, partition=index)
            offsets.append((labels, committed.offset))
            offset_sum[topic] = offset_sum.get(topic, 0) + committed.offset
            end = _end(replicas, topic, index)
            if end is not None:
                lag = max(end - committed.offset, 0)
                lags.append((labels, lag))
                lag_sum[topic] = lag_sum.get(topic, 0) + lag
        offset_sums += [(labelled(consumergroup=name, topic=topic), value) for topic, value in offset_sum.items()]
        lag_sums += [(labelled(consumergroup=name, topic=topic), value) for topic, value in lag_sum.items()]
    yield Family("kafka_consumergroup_members", "Members of a group.", members)
    yield Family("kafka_consumergroup_current_offset", "What a group has committed.", offsets)
    yield Family("kafka_consumergroup_current_offset_sum", "The same, over all partitions of a topic.", offset_sums)
    yield Family("kafka_consumergroup_lag", "Records behind what a group has committed.", lags)
    yield Family("kafka_consumergroup_lag_sum", "The same, over all partitions of a topic.", lag_sums)


def _end(replicas: Replicas, topic: str, index: int) -> int | None:
    try:
        return replicas.partition(topic, index).log.high_watermark
    except Error:
        return None
