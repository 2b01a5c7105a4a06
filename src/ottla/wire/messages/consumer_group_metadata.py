"""Made from the message table by scripts/wire_messages.py; edit neither."""

from __future__ import annotations

from ottla.wire.message import Message


class ConsumerGroupMetadataKey(Message):
    """Version 3."""

    __slots__ = ("group_id",)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupMetadataValue(Message):
    """Version 0."""

    __slots__ = ("epoch",)

    def __init__(
        self,
        *,
        epoch: int = 0,
    ) -> None:
        self.epoch = epoch
