"""A record as the commands see it, whether it was read from a topic or is on its way to one."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

ANY_PARTITION = -1
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
NO_TIMESTAMP_TYPE = ""


class ClientRecord(NamedTuple):
    """Fields that a producer leaves to the broker keep their defaults."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    topic: str = ""
    partition: int = ANY_PARTITION
    offset: int = -1
    timestamp: int | None = None
    timestamp_type: str = NO_TIMESTAMP_TYPE
    leader_epoch: int = -1
    lacks_headers: bool = False
    """It has some, and confluent_kafka cannot give them."""


class RecordInputError(ValueError):
    """Input that is no record; the message says what is wrong with it."""
