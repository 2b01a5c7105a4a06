from __future__ import annotations

import json

import pytest

from ottla.metadata.errors import InvalidPartitionsError, InvalidReplicationError
from ottla.metadata.ids import BrokerId
from ottla.metadata.placement import place_replicas, rack_alternated, usable_racks
from tests.unit.metadata.golden import encoded

CASES = {name: json.loads(data) for name, data in encoded().items() if name.startswith("placement")}


@pytest.mark.parametrize("case", CASES)
def test_the_same_draw_gives_kafkas_assignment(case: str) -> None:
    count, partitions, factor, start, first, racks = json.loads(case.removeprefix("placement "))
    brokers = {BrokerId(2 * at): f"rack{at * at % racks}" if racks else None for at in range(count)}
    placed = place_replicas(
        brokers, partitions=partitions, replication_factor=factor, start=start, shift=start, first_partition=first
    )
    assert list(placed) == list(range(first, first + partitions))
    assert [list(replicas) for replicas in placed.values()] == CASES[case]


def test_neighbors_come_from_different_racks() -> None:
    racks = {BrokerId(0): "a", BrokerId(1): "a", BrokerId(2): "b", BrokerId(3): "c", BrokerId(4): "b", BrokerId(5): "a"}
    assert rack_alternated(racks) == [0, 2, 3, 1, 4, 5]


def test_what_cannot_be_placed_is_refused() -> None:
    two = {BrokerId(1): "a", BrokerId(2): None}
    with pytest.raises(InvalidPartitionsError, match="larger than 0"):
        place_replicas(two, partitions=0, replication_factor=1, start=0, shift=0)
    with pytest.raises(InvalidReplicationError, match="Replication factor must be larger than 0"):
        place_replicas(two, partitions=1, replication_factor=0, start=0, shift=0)
    with pytest.raises(InvalidReplicationError, match="Replication factor: 3 larger than available brokers: 2"):
        place_replicas(two, partitions=1, replication_factor=3, start=0, shift=0)
    with pytest.raises(InvalidReplicationError, match="Not all brokers have rack information"):
        place_replicas(two, partitions=1, replication_factor=2, start=0, shift=0)
    assert place_replicas(usable_racks(two), partitions=1, replication_factor=2, start=0, shift=0) == {0: (1, 2)}
    assert place_replicas(two, partitions=1, replication_factor=2, start=1, shift=0, rack_aware=False) == {0: (2, 1)}
