"""Records, offsets and epochs asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ottla.wire import ZERO_UUID, ApiKey, Message
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.compat.batches import FIRST_MS, Batch, records
from tests.compat.brokerpair import Side, Step
from tests.compat.requests.drawing import Drawing

_FORGOTTEN_BY_ID: Final = 13
_FETCH_BY_ID: Final = 13


class Reading(Drawing):
    def _fetch_topics(self, where: dict[str, list[int]]) -> Callable[[Side, int], list[FetchTopic]]:
        draw = self._draw
        wanted = {
            name: [
                FetchPartition(
                    partition=number,
                    fetch_offset=self._offset(),
                    current_leader_epoch=self._epoch(),
                    partition_max_bytes=draw.choice((1, 100, 300, 1_000_000, 1_000_000, 0)),
                    last_fetched_epoch=draw.choice((-1, -1, -1, 0)),
                )
                for number in numbers
            ]
            for name, numbers in where.items()
        }

        def make(side: Side, version: int) -> list[FetchTopic]:
            by_id = version >= _FETCH_BY_ID
            return [
                FetchTopic(
                    topic="" if by_id else name,
                    topic_id=side.topic_id(name) if by_id else ZERO_UUID,
                    partitions=[_fetched(partition, version) for partition in partitions],
                )
                for name, partitions in wanted.items()
            ]

        return make

    def _fetch(self) -> Step:
        draw = self._draw
        where = self._where(4)
        topics = self._fetch_topics(where)
        most, isolation = draw.choice((1, 200, 10_000_000, 10_000_000)), draw.choice((0, 0, 1))
        wait_ms, least_bytes = draw.choice((0, 0, 10)), draw.choice((0, 1, 500))

        def make(side: Side, version: int) -> Message:
            return FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=least_bytes,
                max_bytes=most,
                isolation_level=isolation,
                topics=topics(side, version),
            )

        return self._step(ApiKey.FETCH, f"{where} {most=} {isolation=} {wait_ms=} {least_bytes=}", make)

    def _session(self) -> Step:
        draw = self._draw
        number = draw.randrange(3)
        due = self._session_epochs.get(number, 0)
        chance = draw.random()
        epoch = due
        if chance < 0.06:
            epoch = draw.choice((due + 1, 0, -1, -1))
        wrong_id = draw.random() < 0.04
        if epoch == 0:
            self._session_epochs[number] = 1
        elif epoch == -1:
            self._session_epochs[number] = 0
        elif epoch == due and not wrong_id:
            self._session_epochs[number] = due + 1
        where = self._where(3) if draw.random() < 0.7 or epoch <= 0 else {}
        forgotten = self._where(2) if epoch > 0 and draw.random() < 0.3 else {}
        topics = self._fetch_topics(where)
        most = draw.choice((300, 10_000_000))

        def make(side: Side, version: int) -> Message:
            by_id = version >= _FORGOTTEN_BY_ID
            return FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=most,
                session_id=987_654_321 if wrong_id else 0 if epoch == 0 and number else side.session(number),
                session_epoch=epoch,
                topics=topics(side, version),
                forgotten_topics_data=[
                    ForgottenTopic(
                        topic="" if by_id else name,
                        topic_id=side.topic_id(name) if by_id else ZERO_UUID,
                        partitions=numbers,
                    )
                    for name, numbers in forgotten.items()
                ],
            )

        step = self._step(ApiKey.FETCH, f"session {number} {epoch=} {wrong_id=} {where} {forgotten=}", make, least=7)
        if epoch == 0:
            self._session_versions[number] = step.version
        else:
            # A client keeps to its version. Epochs that were told in 12 cannot be answered before it.
            version = self._session_versions.get(number, step.version)
            if draw.random() < 0.95 or step.version < 12 == version:
                step.version = version
        return replace(step, session=number)

    def _waiting_fetch(self) -> Step:
        """A fetch at the end of a partition, and then a record that it waits for."""
        name = self._draw.choice(sorted(self._partitions) or ["alpha"])
        topics = {name: [0]}

        def make(side: Side, version: int) -> Message:
            end = side.end_offset(name)
            by_id = version >= _FETCH_BY_ID
            partition = FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1_000_000)
            return FetchRequest(
                max_wait_ms=3000,
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic="" if by_id else name,
                        topic_id=side.topic_id(name) if by_id else ZERO_UUID,
                        partitions=[partition],
                    )
                ],
            )

        step = self._step(ApiKey.FETCH, f"{topics} waiting", make)
        batch = Batch("awaited", records(self._draw))
        data = [PartitionProduceData(index=0, records=batch.bytes_for(-1))]
        produce = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=name, partition_data=data)],
        )
        step.meanwhile = Step(ApiKey.PRODUCE, 9, f"{name}-0 awaited", lambda _side, _version: produce)
        return step

    def _list_offsets(self) -> Step:
        draw = self._draw
        topics = [
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=number,
                        current_leader_epoch=self._epoch(),
                        timestamp=self._time(name),
                    )
                    for number in (numbers * 2 if draw.random() < 0.05 else numbers)
                ],
            )
            for name, numbers in self._where(3).items()
        ]
        isolation = draw.choice((0, 0, 1))
        replica = -1

        def make(_side: Side, version: int) -> Message:
            fitting = [
                ListOffsetsTopic(name=topic.name, partitions=[_listed(each, version) for each in topic.partitions])
                for topic in topics
            ]
            level = isolation if version >= 2 else 0
            return ListOffsetsRequest(replica_id=replica, isolation_level=level, topics=fitting)

        return self._step(ApiKey.LIST_OFFSETS, f"{topics} {isolation=}", make)

    def _time(self, name: str) -> int:
        times = (-1, -1, -2, -2, -3, -4, -5, FIRST_MS + self._draw.randrange(-9000, 110_000), 0)
        return self._draw.choice(tuple(time for time in times if time in (-1, -2, -4, -5) or name not in self._cut))

    def _epochs(self) -> Step:
        draw = self._draw
        topics = [
            OffsetForLeaderTopic(
                topic=name,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=number,
                        current_leader_epoch=self._epoch(),
                        leader_epoch=draw.choice((0, 0, 0, 1, -1, 7)),
                    )
                    for number in numbers
                ],
            )
            for name, numbers in self._where(3).items()
        ]
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)

        def make(_side: Side, version: int) -> Message:
            return request if version >= 3 else OffsetForLeaderEpochRequest(replica_id=-2, topics=topics)

        return self._step(ApiKey.OFFSET_FOR_LEADER_EPOCH, f"{topics}", make)


def _fetched(partition: FetchPartition, version: int) -> FetchPartition:
    """The same without what older versions cannot say."""
    return FetchPartition(
        partition=partition.partition,
        fetch_offset=partition.fetch_offset,
        partition_max_bytes=partition.partition_max_bytes,
        current_leader_epoch=partition.current_leader_epoch if version >= 9 else -1,
        last_fetched_epoch=partition.last_fetched_epoch if version >= 12 else -1,
    )


def _listed(partition: ListOffsetsPartition, version: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(
        partition_index=partition.partition_index,
        timestamp=partition.timestamp,
        current_leader_epoch=partition.current_leader_epoch if version >= 4 else -1,
    )
