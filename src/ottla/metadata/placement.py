"""Which brokers get the replicas of new partitions.

Without racks: the leaders go round the brokers from ``start``. The followers of a partition sit behind its leader at a
distance that grows by one each time the leaders have gone round, so that a broker's followers are spread too:

    brokers 0..4, three replicas, start 0, shift 0      p0: 0 1 2   p1: 1 2 3   …   p4: 4 0 1   p5: 0 2 3   p6: 1 3 4

With racks: brokers are lined up so that neighbors come from different racks, and a broker is passed over while its
rack has a replica already and another rack has none.

``start`` and ``shift`` are drawn at random by the caller; the same draw gives the same assignment as Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from ottla.metadata.errors import InvalidPartitionsError, InvalidReplicationError
from ottla.metadata.ids import BrokerId

Placement = dict[int, tuple[BrokerId, ...]]


def place_replicas(
    brokers: Mapping[BrokerId, str | None],
    *,
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
    rack_aware: bool = True,
) -> Placement:
    """Replicas for ``partitions`` partitions from ``first_partition`` on. ``brokers`` maps each to its rack, or None."""
    if partitions <= 0:
        raise InvalidPartitionsError("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise InvalidReplicationError("Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise InvalidReplicationError(
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}."
        )
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None} if rack_aware else {}
    if racks and len(racks) < len(brokers):
        raise InvalidReplicationError(
            "Not all brokers have rack information for replica rack aware assignment. Give every broker a rack, or"
            " ask for an assignment that is not rack aware."
        )
    wanted = range(first_partition, first_partition + partitions)
    if racks:
        return _across_racks(racks, wanted, replication_factor, start=start, shift=shift)
    return _round_robin(sorted(brokers), wanted, replication_factor, start=start, shift=shift)


def usable_racks(brokers: Mapping[BrokerId, str | None]) -> dict[BrokerId, str | None]:
    """The racks if every broker has one, and none at all otherwise: what Kafka does for topics that create themselves."""
    complete = all(rack is not None for rack in brokers.values())
    return {broker: rack if complete else None for broker, rack in brokers.items()}


def rack_alternated(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """The brokers so that neighbors are of different racks for as long as that goes."""
    by_rack = [sorted(broker for broker, home in racks.items() if home == rack) for rack in sorted(set(racks.values()))]
    return [broker for row in zip_longest(*by_rack) for broker in row if broker is not None]


def _round_robin(brokers: list[BrokerId], wanted: range, factor: int, *, start: int, shift: int) -> Placement:
    placement: Placement = {}
    count = len(brokers)
    for partition in wanted:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        followers = (brokers[_follower(first, shift, nth, count)] for nth in range(factor - 1))
        placement[partition] = (brokers[first], *followers)
    return placement


def _across_racks(racks: Mapping[BrokerId, str], wanted: range, factor: int, *, start: int, shift: int) -> Placement:
    brokers = rack_alternated(racks)
    count = len(brokers)
    rack_count = len(set(racks.values()))
    placement: Placement = {}
    for partition in wanted:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        chosen = [brokers[first]]
        covered = {racks[brokers[first]]}
        nth = 0
        while len(chosen) < factor:
            broker = brokers[_follower(first, shift * rack_count, nth, count)]
            nth += 1
            if (racks[broker] not in covered or len(covered) == rack_count) and broker not in chosen:
                chosen.append(broker)
                covered.add(racks[broker])
        placement[partition] = tuple(chosen)
    return placement


def _follower(first: int, shift: int, nth: int, count: int) -> int:
    return (first + 1 + (shift + nth) % (count - 1)) % count
