"""Fetch sessions (KIP-227): a consumer of many partitions names them once, and then only what changes.

    epoch -1    no session, or the end of one: the request names everything, and so does the answer
    epoch 0     a new session, if there is room for one
    epoch n     the n-th fetch of a session: the request names what changed, the answer what is worth telling

The number of sessions is bounded. A new one takes the place of the one that was used least recently, if that has been
idle long enough; otherwise its client goes on without a session, which costs it bytes and nothing else.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from ottla.wire import ZERO_UUID, ErrorCode
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, ForgottenTopic, PartitionData

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
_EPOCH_MAX = 0x7FFFFFFF
_ID_MAX = 0x7FFFFFFF

Key = tuple[str, bytes, int]
"""Topic name, topic id (one of them is empty on the wire) and partition."""


class Told(NamedTuple):
    """What a client knows of a partition from the last answer that named it."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class FetchSession:
    """The partitions of one consumer, in the order in which they are served."""

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH
        self.partitions: OrderedDict[Key, FetchPartition] = OrderedDict()
        self.told: dict[Key, Told] = {}
        self.used_ms = 0

    def update(self, request: FetchRequest) -> None:
        for key, partition in named(request):
            self.partitions[key] = partition
        for key in _forgotten(request.forgotten_topics_data):
            self.partitions.pop(key, None)
            self.told.pop(key, None)

    def worth_telling(self, key: Key, data: PartitionData) -> bool:
        """Records, an error, or offsets that moved. What is told goes to the end, so that everyone gets a turn."""
        told = Told(data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if data.records:
            self.partitions.move_to_end(key)
        elif not data.error_code and self.told.get(key) == told:
            return False
        self.told[key] = told
        return True


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, *, sessions_max: int, idle_min_ms: int = 120_000) -> None:
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._sessions_max = sessions_max
        self._idle_min_ms = idle_min_ms
        self._random = random.Random()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, now_ms: int) -> FetchSession | ErrorCode | None:
        """The session a fetch belongs to; None if it has none, an error if it says so in vain."""
        if request.session_epoch == FINAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return self._create(request, now_ms)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.update(request)
        session.epoch = session.epoch % _EPOCH_MAX + 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session.id)
        return session

    def _create(self, request: FetchRequest, now_ms: int) -> FetchSession | None:
        if len(self._sessions) >= self._sessions_max:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < self._idle_min_ms:
                return None
            del self._sessions[oldest.id]
        session_id = self._random.randint(1, _ID_MAX)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _ID_MAX)
        session = self._sessions[session_id] = FetchSession(session_id)
        session.update(request)
        session.epoch = 1
        session.used_ms = now_ms
        return session


def named(request: FetchRequest) -> Iterable[tuple[Key, FetchPartition]]:
    """Every partition a request names."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield (topic.topic, topic.topic_id, partition.partition), partition


def _forgotten(topics: Iterable[ForgottenTopic]) -> Iterable[Key]:
    for topic in topics:
        for index in topic.partitions:
            yield topic.topic, topic.topic_id or ZERO_UUID, index
