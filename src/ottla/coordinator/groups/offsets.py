"""What a group has committed, by partition.

A commit inside a transaction waits, by producer, for the transaction to end. Whichever record lies further on in the log
counts then: a commit of its own that came after the transactional one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ottla.coordinator.groups.formats import NEVER, CommittedOffset, Kept, offset_of
from ottla.metadata.ids import TopicPartition

_Logged = tuple[Kept, int]
"""With the offset of the record."""


class Offsets:
    def __init__(self) -> None:
        self._committed: dict[str, dict[int, _Logged]] = {}
        """By topic and partition. There may be millions: a key that is made for each of them would show."""
        self._pending: dict[int, dict[TopicPartition, _Logged]] = {}

    def __len__(self) -> int:
        return sum([len(partitions) for partitions in self._committed.values()])

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, partitions in self._committed.items():
            for partition in partitions:
                yield TopicPartition(topic, partition)

    def __contains__(self, where: TopicPartition) -> bool:
        return where.partition in self._committed.get(where.topic, ())

    @property
    def is_empty(self) -> bool:
        return not self._committed and not self._pending

    def is_more_than(self, part: Collection[TopicPartition]) -> bool:
        """Something would be left without ``part``, all of which is there."""
        return len(self) > len(part) or bool(self._pending)

    def get(self, where: TopicPartition) -> CommittedOffset | None:
        found = self._logged(where)
        return None if found is None else offset_of(found[0])

    def _logged(self, where: TopicPartition) -> _Logged | None:
        partitions = self._committed.get(where.topic)
        return None if partitions is None else partitions.get(where.partition)

    def is_pending(self, where: TopicPartition) -> bool:
        """A transaction that is not decided yet has committed it."""
        return any(where in offsets for offsets in self._pending.values())

    def put(self, topic: str, partition: int, kept: Kept, at: int) -> None:
        partitions = self._committed.get(topic)
        if partitions is None:
            partitions = self._committed[topic] = {}
        partitions[partition] = (kept, at)

    def put_pending(self, producer_id: int, where: TopicPartition, kept: Kept, *, at: int) -> None:
        self._pending.setdefault(producer_id, {})[where] = (kept, at)

    def remove(self, where: TopicPartition) -> None:
        """Also what transactions would still make of it, as with Kafka."""
        partitions = self._committed.get(where.topic)
        if partitions is not None:
            partitions.pop(where.partition, None)
            if not partitions:
                del self._committed[where.topic]
        for producer_id, offsets in list(self._pending.items()):
            offsets.pop(where, None)
            if not offsets:
                del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        pending = self._pending.pop(producer_id, {})
        if not committed:
            return
        for where, (kept, at) in pending.items():
            there = self._logged(where)
            if there is None or there[1] < at:
                self.put(where.topic, where.partition, kept, at)

    def expired(
        self, since_ms: Callable[[CommittedOffset], int], *, retention_ms: int, now_ms: int
    ) -> list[TopicPartition]:
        """What is to go: ``since_ms`` says from when on the retention counts. Clients of old said themselves."""

        def is_old(value: CommittedOffset) -> bool:
            if value.expire_timestamp_ms == NEVER:
                return now_ms - since_ms(value) >= retention_ms
            return now_ms >= value.expire_timestamp_ms

        return [
            TopicPartition(topic, partition)
            for topic, partitions in self._committed.items()
            for partition, (kept, _) in partitions.items()
            if is_old(offset_of(kept)) and not self.is_pending(TopicPartition(topic, partition))
        ]
