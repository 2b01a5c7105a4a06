"""Made from the message table by scripts/wire_messages.py; edit neither."""

from __future__ import annotations

from ottla.wire.message import Message


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Version 6."""

    __slots__ = ("group_id",)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """Version 0."""

    __slots__ = ("assignment_epoch",)

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
