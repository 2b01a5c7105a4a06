"""What brokers say to orders, and what of it the controller has to act on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.wire import ErrorCode, Message
from ottla.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.messages.k05_stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.messages.k06_update_metadata import UpdateMetadataResponse


class Answered(NamedTuple):
    """What a broker said to an order."""

    broker_id: BrokerId
    broker_epoch: int
    request: Message
    response: Message


def refused(answer: Answered) -> ErrorCode | None:
    """Why a whole order was not obeyed."""
    response = answer.response
    assert isinstance(response, (LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse)), response
    return ErrorCode(response.error_code) if response.error_code else None


def storage_errors(answer: Answered) -> list[TopicPartition]:
    """The replicas that a broker cannot lead or follow, since their disk failed."""
    return [where for where, code in _led_or_followed(answer) if code == ErrorCode.KAFKA_STORAGE_ERROR]


def obeyed(answer: Answered) -> list[TopicPartition]:
    """The replicas that a broker leads or follows now as it was told."""
    return [where for where, code in _led_or_followed(answer) if not code]


def _led_or_followed(answer: Answered) -> Iterator[tuple[TopicPartition, int]]:
    """What a broker said to each partition of a LeaderAndIsr that it did not refuse as a whole."""
    request, response = answer.request, answer.response
    if not isinstance(request, LeaderAndIsrRequest) or not isinstance(response, LeaderAndIsrResponse):
        return
    if response.error_code:
        return
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    for topic in response.topics:
        if topic.topic_id in names:
            for partition in topic.partition_errors:
                yield TopicPartition(names[topic.topic_id], partition.partition_index), partition.error_code


def deleted(answer: Answered) -> list[TopicPartition]:
    """The replicas that a broker was told to delete, and has."""
    request, response = answer.request, answer.response
    if not isinstance(request, StopReplicaRequest) or not isinstance(response, StopReplicaResponse):
        return []
    if response.error_code:
        return []
    asked = {
        (topic.topic_name, partition.partition_index)
        for topic in request.topic_states
        for partition in topic.partition_states
        if partition.delete_partition
    }
    return [
        TopicPartition(each.topic_name, each.partition_index)
        for each in response.partition_errors
        if not each.error_code and (each.topic_name, each.partition_index) in asked
    ]
