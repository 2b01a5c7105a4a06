"""A follower's end of a fetch session (KIP-227). Pure.

The first fetch names every partition and opens the session; those behind it name what changed, and what is not wanted any
more. Whatever goes wrong with a session is mended by opening the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.wire.messages.k01_fetch import FetchPartition, FetchTopic, ForgottenTopic

INITIAL_EPOCH = 0
NO_SESSION = 0
_EPOCH_MAX = 0x7FFFFFFF


class Key(NamedTuple):
    """A partition as fetches name it."""

    topic_id: bytes
    partition: int


class Ask(NamedTuple):
    """The part of a fetch that the session decides."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class LeaderSession:
    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._named: set[Key] = set()

    @property
    def is_new(self) -> bool:
        """The next fetch has to name everything."""
        return self._epoch == INITIAL_EPOCH

    def ask(self, wanted: Mapping[Key, FetchPartition], unwanted: set[Key]) -> Ask:
        """``wanted`` is everything for a new session, and what changed for one that goes on."""
        forgotten = unwanted & self._named - wanted.keys() if unwanted else set()
        ask = Ask(
            self._id,
            self._epoch,
            [FetchTopic(topic_id=topic_id, partitions=each) for topic_id, each in _grouped(wanted).items()],
            [
                ForgottenTopic(
                    topic_id=topic_id, partitions=[key.partition for key in forgotten if key.topic_id == topic_id]
                )
                for topic_id in sorted({key.topic_id for key in forgotten})
            ],
        )
        # In place: there may be thousands, of which a fetch names one.
        if self.is_new:
            self._named.clear()
        self._named -= forgotten
        self._named.update(wanted)
        return ask

    def answered(self, session_id: int) -> None:
        """The leader goes on with the session, or would have none."""
        if self._epoch == INITIAL_EPOCH:
            self._id = session_id
        if session_id == NO_SESSION:
            self.lost()
        else:
            self._epoch = self._epoch % _EPOCH_MAX + 1

    def lost(self) -> None:
        """Nothing is known of the session any more. Its id is named once more: the leader may forget it then."""
        self._epoch = INITIAL_EPOCH
        self._named.clear()


def _grouped(wanted: Mapping[Key, FetchPartition]) -> dict[bytes, list[FetchPartition]]:
    topics: dict[bytes, list[FetchPartition]] = {}
    for key, partition in wanted.items():
        topics.setdefault(key.topic_id, []).append(partition)
    return topics
