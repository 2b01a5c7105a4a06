"""From what went wrong here to the code a client is told. Every error that may reach a client names Kafka's."""

from __future__ import annotations

from typing import Final

from ottla.base.errors import CorruptionError, Error
from ottla.wire import ErrorCode

MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""Kafka's words for INVALID_REQUEST where it has no others."""


def error_code(error: Error) -> ErrorCode:
    name: str | None = getattr(error, "error", None)
    if name is not None:
        return ErrorCode[name]
    if isinstance(error, CorruptionError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.UNKNOWN_SERVER_ERROR


class RefusedError(Error):
    """What is asked for cannot be; the code and the words that the client is told."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or "")
        self.code = code
        self.message = message
