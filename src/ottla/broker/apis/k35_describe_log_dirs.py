"""DescribeLogDirs: what lies in each log directory of this broker, and how much room there is."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.log import Log, LogDirectory, StorageError, TopicPartition
from ottla.replica.replicas import Replicas
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_NO_LAG = -1


def handle(ctx: Context, request: DescribeLogDirsRequest) -> Answer:
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
    replicas = ctx.services.replicas
    return DescribeLogDirsResponse(results=[_described(replicas, each, wanted) for each in replicas.directories])


def _described(
    replicas: Replicas, directory: LogDirectory, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    path = str(directory.path.absolute())
    try:
        directory.health.check()
        room = os.statvfs(directory.path)
    except (OSError, StorageError):
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for where, log, is_future in _logs(directory):
        if wanted is None or where in wanted:
            topics.setdefault(where.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=where.partition,
                    partition_size=log.size,
                    offset_lag=_lag(replicas, where, log, is_future=is_future),
                    is_future_key=is_future,
                )
            )
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=room.f_blocks * room.f_frsize,
        usable_bytes=room.f_bavail * room.f_frsize,
    )


def _logs(directory: LogDirectory) -> Iterator[tuple[TopicPartition, Log, bool]]:
    for where, log in directory.logs.items():
        yield where, log, False
    for where, log in directory.future_logs.items():
        yield where, log, True


def _lag(replicas: Replicas, where: TopicPartition, log: Log, *, is_future: bool) -> int:
    """How far a log that is being moved is behind; otherwise, how far the log is behind what the leader has committed."""
    if not is_future:
        return max(log.high_watermark - log.log_end_offset, 0)
    current = next((each.logs[where] for each in replicas.directories if where in each.logs), None)
    return _NO_LAG if current is None else current.log_end_offset - log.log_end_offset


HANDLER = Handler(ApiKey.DESCRIBE_LOG_DIRS, handle, Operation.DESCRIBE, Resource.CLUSTER)
