"""AlterReplicaLogDirs: bring replicas of this broker into other log directories of it.

Behaviour: the answer comes at once, the move takes as long as it takes (DescribeLogDirs shows how far it is). Moving a replica
to where it is ends a move that is under way. A replica that is not here yet is answered with REPLICA_NOT_AVAILABLE, and
comes into the directory that was named for it once it is made.
"""

from __future__ import annotations

import logging

from ottla.base.errors import Error
from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.log import LogDirectory, LogError
from ottla.metadata.ids import TopicPartition
from ottla.replica.errors import ReplicaError, UnknownPartitionError
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = logging.getLogger(__name__)

_NAME_MAX = 255 - len("-.-future") - 32


def handle(ctx: Context, request: AlterReplicaLogDirsRequest) -> Answer:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for wanted in request.dirs:
        target = _directory(ctx, wanted.path)
        for topic in wanted.topics:
            for number in topic.partitions:
                code = _move(ctx, TopicPartition(topic.name, number), target)
                result = AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                results.setdefault(topic.name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _directory(ctx: Context, path: str) -> LogDirectory | None:
    here = (each for each in ctx.services.replicas.directories if str(each.path.absolute()) == path)
    return next(here, None)


def _move(ctx: Context, where: TopicPartition, target: LogDirectory | None) -> ErrorCode:
    if len(f"{where.topic}{where.partition}") > _NAME_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION  # the folder of a log that moves has a longer name
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        ctx.services.moving.move(where, target)
    except UnknownPartitionError:
        topic = ctx.services.cluster.image.topics.get(where.topic)
        is_known = topic is not None and where.partition in topic.partitions
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except (LogError, ReplicaError) as error:
        log.warning("%s is not moved: %s", where, error)
        return ErrorCode[error.error]
    except Error as error:
        log.warning("%s is not moved: %s", where, error)
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


HANDLER = Handler(ApiKey.ALTER_REPLICA_LOG_DIRS, handle, Operation.ALTER, Resource.CLUSTER)
