"""Made from the message table by scripts/wire_messages.py; edit neither."""

from __future__ import annotations

from ottla.wire.message import Message


class ControlRecordTypeSchema(Message):
    """Version 0."""

    __slots__ = ("type",)

    def __init__(
        self,
        *,
        type: int = 0,
    ) -> None:
        self.type = type
