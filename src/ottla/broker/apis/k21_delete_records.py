"""DeleteRecords: the records of partitions before an offset are given up; answered when no live replica has them.

The start of the log moves at once, so nobody reads them any more; segments go with the next look at retention.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.errors import Error
from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.broker.stepwise import gradually
from ottla.metadata.names import is_internal
from ottla.replica.partition import Partition
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_OFFSET = -1


class _Deleting:
    """One partition whose followers may still have what is deleted."""

    __slots__ = ("before", "partition", "result")

    def __init__(self, partition: Partition, before: int, result: DeleteRecordsPartitionResult) -> None:
        self.partition = partition
        self.before = before
        self.result = result

    def is_done(self) -> bool:
        if not self.partition.is_leader:
            self.result.error_code, self.result.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_OFFSET
            return True
        self.result.low_watermark = self.partition.low_watermark
        return self.result.low_watermark >= self.before


def handle(ctx: Context, request: DeleteRecordsRequest) -> Answer:
    under_way: list[_Deleting] = []
    response = DeleteRecordsResponse()

    def delete(ctx: Context) -> Iterator[None]:
        for topic in request.topics:
            result = DeleteRecordsTopicResult(name=topic.name)
            response.topics.append(result)
            for asked in topic.partitions:
                result.partitions.append(_delete(ctx, topic.name, asked, under_way))
                yield
            yield

    def finish() -> Answer:
        waiting = [each for each in under_way if not each.is_done()]
        return _Waiting(ctx, request.timeout_ms, waiting, response).parked if waiting else response

    return gradually(ctx, sum(1 + len(topic.partitions) for topic in request.topics), delete, finish)


def _delete(
    ctx: Context, topic: str, asked: DeleteRecordsPartition, under_way: list[_Deleting]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=NO_OFFSET)
    try:
        partition = ctx.services.replicas.partition(topic, asked.partition_index)
        if is_internal(topic):
            result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            return result
        under_way.append(_Deleting(partition, partition.delete_records(asked.offset), result))
    except Error as error:
        result.error_code = error_code(error)
    return result


class _Waiting:
    """A request that waits for followers to give up the same records, or for its time to be up."""

    def __init__(
        self, ctx: Context, timeout_ms: int, waiting: list[_Deleting], response: DeleteRecordsResponse
    ) -> None:
        self.parked = Parked(on_abandoned=self._stop)
        self._waiting = waiting
        self._response = response
        self._timer = ctx.services.loop.call_later(timeout_ms / 1000, self._time_out)
        for each in waiting:
            each.partition.wait_for_start(self._look)

    def _look(self) -> None:
        if all(each.is_done() for each in self._waiting):
            self._stop()
            self.parked.complete(self._response)

    def _time_out(self) -> None:
        for each in self._waiting:
            if not each.is_done():
                each.result.error_code, each.result.low_watermark = ErrorCode.REQUEST_TIMED_OUT, NO_OFFSET
        self._stop()
        self.parked.complete(self._response)

    def _stop(self) -> None:
        self._timer.cancel()
        for each in self._waiting:
            each.partition.forget(self._look)


HANDLER = Handler(ApiKey.DELETE_RECORDS, handle, Operation.DELETE, Resource.TOPICS)
