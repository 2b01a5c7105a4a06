"""Made from the message table by scripts/wire_messages.py; edit neither."""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message


class ControlledShutdownRequest(Message):
    """API key 7, versions 0 to 3."""

    __slots__ = ("broker_id", "broker_epoch")

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class ControlledShutdownResponse(Message):
    """API key 7, versions 0 to 3."""

    __slots__ = ("error_code", "remaining_partitions")

    def __init__(
        self,
        *,
        error_code: int = 0,
        remaining_partitions: list[RemainingPartition] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.remaining_partitions = [] if remaining_partitions is EMPTY else remaining_partitions


class RemainingPartition(Message):
    __slots__ = ("topic_name", "partition_index")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
