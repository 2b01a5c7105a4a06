"""Made from the message table by scripts/wire_messages.py; edit neither."""

from __future__ import annotations

from ottla.wire.message import Message


class SnapshotFooterRecord(Message):
    """Version 0."""

    __slots__ = ("version",)

    def __init__(
        self,
        *,
        version: int = 0,
    ) -> None:
        self.version = version
