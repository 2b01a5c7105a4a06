"""Names for the numbers and ids of a cluster, so that two of them cannot be swapped unnoticed.

A topic id and a cluster id are UUIDs, written as 22 characters: their 16 bytes in URL-safe Base64 without padding.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple, NewType

from ottla.metadata.errors import ZnodeError

BrokerId = NewType("BrokerId", int)
TopicId = NewType("TopicId", bytes)
"""The 16 bytes of a topic's UUID, as they go over the wire."""

ZERO_ID: Final = TopicId(bytes(16))
"""On the wire: no id."""
METADATA_ID: Final = TopicId(bytes(15) + b"\1")
"""The id of KRaft's metadata topic, which no other may have."""
RESERVED_IDS: Final = frozenset({ZERO_ID, METADATA_ID})
NO_LEADER: Final = BrokerId(-1)


class TopicPartition(NamedTuple):
    """One partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Kafka's own spelling, which is the name of the partition's folder too."""
        return f"{self.topic}-{self.partition}"


def topic_id_from(entropy: bytes) -> TopicId | None:
    """A random (version 4) UUID out of 16 random bytes, or None for the few that Kafka does not hand out.

    An id whose text begins with a dash would be taken for an option by command-line tools, so Kafka draws again.
    """
    assert len(entropy) == 16, "a UUID has 16 bytes"
    drawn = bytearray(entropy)
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    topic_id = TopicId(bytes(drawn))
    return None if topic_id in RESERVED_IDS or format_id(topic_id).startswith("-") else topic_id


def format_id(raw: bytes) -> str:
    """The 22 characters that stand for 16 bytes."""
    assert len(raw) == 16, "a UUID has 16 bytes"
    return urlsafe_b64encode(raw)[:22].decode()


def parse_id(text: str) -> TopicId:
    """The 16 bytes that 22 characters stand for."""
    try:
        raw = urlsafe_b64decode(text + "==")
    except ValueError:
        raw = b""
    if len(raw) != 16 or len(text) != 22:
        raise ZnodeError(f"{text!r}: must be a UUID in 22 characters of URL-safe Base64")
    return TopicId(raw)
