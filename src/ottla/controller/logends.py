"""How far the logs of replicas go, asked of each by ListOffsets as Kafka's debugging replica does.

A replica whose disk failed, or whose log is damaged, has nothing that could be led with.
"""

from __future__ import annotations

from typing import Final

from ottla.controller.machine.elections import LogEnd
from ottla.controller.streams import Connect
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import Image
from ottla.peers import PeerLostError
from ottla.wire import ErrorCode
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_VERSION: Final = 5
_LATEST: Final = -1
_WHOEVER_ASKS: Final = -2
_NOTHING: Final = LogEnd(-1, -1)


async def log_ends(connect: Connect, image: Image, where: TopicPartition) -> dict[BrokerId, LogEnd] | None:
    """Of all that are listed as in sync; None if one of them does not tell."""
    state = image.state(where)
    ends: dict[BrokerId, LogEnd] = {}
    for broker in () if state is None else state.isr:
        end = await _log_end(connect, image, where, broker)
        if end is None:
            return None
        ends[broker] = end
    return ends


async def _log_end(connect: Connect, image: Image, where: TopicPartition, broker: BrokerId) -> LogEnd | None:
    live = image.brokers.get(broker)
    link = None if live is None else connect(live)
    if link is None:
        return None
    partition = ListOffsetsPartition(partition_index=where.partition, current_leader_epoch=-1, timestamp=_LATEST)
    topic = ListOffsetsTopic(name=where.topic, partitions=[partition])
    try:
        response = await link.call(ListOffsetsRequest(replica_id=_WHOEVER_ASKS, topics=[topic]), _VERSION)
    except (PeerLostError, TimeoutError):
        return None
    finally:
        link.close()
    assert isinstance(response, ListOffsetsResponse), response
    (answer,) = (partition for topic in response.topics for partition in topic.partitions)
    if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
        return _NOTHING
    return None if answer.error_code else LogEnd(answer.leader_epoch, answer.offset)
