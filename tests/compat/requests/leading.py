"""Leaders elected and replicas moved, as far as one broker allows."""

from __future__ import annotations

from ottla.wire import ApiKey
from ottla.wire.messages import k43_elect_leaders as elect
from ottla.wire.messages import k45_alter_partition_reassignments as alter
from ottla.wire.messages import k46_list_partition_reassignments as listing
from tests.compat.brokerpair import Step
from tests.compat.requests.drawing import Drawing


class Leading(Drawing):
    def _elect(self) -> Step:
        """Of partitions by name: of all, some may be on their way out, here or there."""
        draw = self._draw
        wanted = [elect.TopicPartitions(topic=name, partitions=numbers) for name, numbers in self._where(3).items()]
        request = elect.ElectLeadersRequest(
            election_type=draw.choice((0, 0, 1)), topic_partitions=wanted, timeout_ms=10_000
        )
        least = 1 if request.election_type else 0
        return self._step(ApiKey.ELECT_LEADERS, f"{request}", lambda _side, _version: request, least=least)

    def _reassign(self) -> Step:
        draw = self._draw
        topics = [
            alter.ReassignableTopic(
                name=name,
                partitions=[
                    alter.ReassignablePartition(
                        partition_index=number, replicas=draw.choice((None, None, [0], [5], [0, 0], [], [-1]))
                    )
                    for number in numbers
                ],
            )
            for name, numbers in self._where(2).items()
        ]
        request = alter.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000)
        return self._step(ApiKey.ALTER_PARTITION_REASSIGNMENTS, f"{topics}", lambda _side, _version: request)

    def _reassignments(self) -> Step:
        wanted = None
        if self._draw.random() < 0.5:
            wanted = [
                listing.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in self._where(3).items()
            ]
        request = listing.ListPartitionReassignmentsRequest(topics=wanted, timeout_ms=10_000)
        return self._step(ApiKey.LIST_PARTITION_REASSIGNMENTS, f"{wanted}", lambda _side, _version: request)
