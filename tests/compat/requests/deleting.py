"""Records deleted before an offset, and the producers that partitions remember."""

from __future__ import annotations

from ottla.wire import ApiKey
from ottla.wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from tests.compat.brokerpair import Step
from tests.compat.requests.drawing import Drawing


class Deleting(Drawing):
    def _delete_records(self) -> Step:
        draw = self._draw
        topics = [
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(
                        partition_index=number, offset=draw.choice((0, 1, 2, draw.randrange(30), -1, -2, 100_000))
                    )
                    for number in numbers
                ],
            )
            for name, numbers in self._where(3).items()
        ]
        self._cut |= {topic.name for topic in topics}
        request = DeleteRecordsRequest(topics=topics, timeout_ms=draw.choice((5000, 0)))
        return self._step(ApiKey.DELETE_RECORDS, f"{topics}", lambda _side, _version: request)

    def _describe_producers(self) -> Step:
        topics = [TopicRequest(name=name, partition_indexes=numbers) for name, numbers in self._where(4).items()]
        request = DescribeProducersRequest(topics=topics)
        return self._step(ApiKey.DESCRIBE_PRODUCERS, f"{topics}", lambda _side, _version: request)
