"""Fetch sessions (KIP-227): a consumer of many partitions names them once, and then only what changes.

    epoch -1    no session, or the end of one: the request names everything, and so does the answer
    epoch 0     a new session, if there is room for one
    epoch n     the n-th fetch of a session: the request names what changed, the answer what is worth telling

The number of sessions is bounded. A new one takes the place of the one that was used least recently, if that has been
idle long enough; otherwise its client goes on without a session, which costs it bytes and nothing else. A session from
which everything was forgotten is over. One that began with topic ids goes on with them.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.replica.partition import Partition
from ottla.wire import ZERO_UUID, ErrorCode
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, ForgottenTopic, PartitionData

NOT_FOUND: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0
_EPOCH_MAX: Final = 0x7FFFFFFF
_ID_MAX: Final = 0x7FFFFFFF

Key = tuple[str, bytes, int]
"""Topic name, topic id (one of them is empty on the wire) and partition."""


class Told(NamedTuple):
    """What a client knows of a partition from the last answer that named it."""

    high_watermark: int
    log_start_offset: int


class _Watch:
    """Tells the news of a follower that something happened to one partition."""

    __slots__ = ("key", "news", "partition")

    def __init__(self, news: News, key: Key, partition: Partition) -> None:
        self.news = news
        self.key = key
        self.partition = partition

    def __call__(self, grown: bool) -> None:
        news = self.news
        news.keys[self.key] = None
        if (grown or news.is_eager) and news.wake is not None:
            news.wake()


class News:
    """Which partitions a follower's next fetch has to look at: those to which something happened since the last.

    A follower may follow thousands of partitions of which a few have records at a time. It is told of each of the others
    when that has grown, when its offsets have moved, or when it is led by somebody else.
    """

    def __init__(self, *, is_eager: bool) -> None:
        self.keys: dict[Key, None] = {}
        self.wake: Callable[[], None] | None = None
        self.is_eager = is_eager
        """Offsets that move are told at once, not only with the records that come next."""
        self._watches: dict[Key, _Watch] = {}

    def take(self) -> dict[Key, None]:
        keys, self.keys = self.keys, {}
        return keys

    def watch(self, key: Key, partition: Partition) -> None:
        known = self._watches.get(key)
        if known is None or known.partition is not partition:
            self.unwatch(key)
            watch = self._watches[key] = _Watch(self, key, partition)
            partition.watch(watch)

    def unwatch(self, key: Key) -> None:
        self.keys.pop(key, None)
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.partition.unwatch(watch)

    def close(self) -> None:
        for key in list(self._watches):
            self.unwatch(key)


class FetchSession:
    """The partitions of one consumer, in the order in which they are served."""

    def __init__(self, session_id: int, *, by_id: bool) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = INITIAL_EPOCH
        self.partitions: OrderedDict[Key, FetchPartition] = OrderedDict()
        self.told: dict[Key, Told] = {}
        self.used_ms = 0
        self.news: News | None = None
        """For a follower."""
        self._replica_epoch = -1

    def close(self) -> None:
        if self.news is not None:
            self.news.close()

    def update(self, request: FetchRequest) -> None:
        for key, partition in named(request):
            self.partitions[key] = partition
        for key in _forgotten(request.forgotten_topics_data):
            self.partitions.pop(key, None)
            self.told.pop(key, None)
            if self.news is not None:
                self.news.unwatch(key)

    def due_to_follower(
        self, request: FetchRequest, *, replica_epoch: int, is_eager: bool
    ) -> list[tuple[Key, FetchPartition]]:
        """What a follower's fetch has to look at: what it names, and of the rest only where something happened.

        The first looks at everything, and so does the first of a broker that has registered again since: every partition has to
        know which life of it has the records, as the controller takes nobody into an ISR who had them in an earlier one. Naming
        the partition is not enough for that: a broker may be given orders, and fetch, before it hears of its own new epoch.
        """
        is_first = self.news is None or replica_epoch != self._replica_epoch
        if self.news is None:
            self.news = News(is_eager=is_eager)
        self._replica_epoch = replica_epoch
        happened = self.news.take()
        if is_first:
            return list(self.partitions.items())
        due = dict(named(request))
        for key in happened:
            if key in self.partitions and key not in due:
                due[key] = self.partitions[key]
        return [(key, wanted) for key, wanted in due.items() if key in self.partitions]

    def begun(self, key: Key, data: PartitionData) -> None:
        """Remember what the first answer says. What was not found goes behind the rest, as with Kafka."""
        self.told[key] = Told(data.high_watermark, data.log_start_offset)
        if data.error_code in NOT_FOUND:
            self.partitions.move_to_end(key)

    def has_moved(self, key: Key, data: PartitionData) -> bool:
        """Its offsets are not those that were told last."""
        return self.told.get(key) != Told(data.high_watermark, data.log_start_offset)

    def worth_telling(self, key: Key, data: PartitionData) -> bool:
        """Records, an error, a divergence, or offsets that moved. Who got records goes to the end: everyone gets a turn."""
        told = Told(data.high_watermark, data.log_start_offset)
        if data.records:
            self.partitions.move_to_end(key)
        elif (
            not data.error_code
            and data.diverging_epoch is None
            and data.preferred_read_replica < 0
            and self.told.get(key) == told
        ):
            return False
        # What was wrong is told anew once it is well again.
        self.told[key] = told._replace(high_watermark=-1) if data.error_code else told
        return True


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, *, sessions_max: int, idle_min_ms: int = 120_000) -> None:
        self.evictions = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._sessions_max = sessions_max
        self._idle_min_ms = idle_min_ms
        self._random = random.Random()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """Of all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(self, request: FetchRequest, now_ms: int, *, by_id: bool) -> FetchSession | ErrorCode | None:
        """The session a fetch belongs to; None if it has none, an error if it says so in vain."""
        if request.session_epoch == FINAL_EPOCH:
            self._end(request.session_id)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self._end(request.session_id)
            return self._create(request, now_ms, by_id=by_id)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(request)
        if not session.partitions:
            self._end(session.id)
            return None
        session.epoch = session.epoch % _EPOCH_MAX + 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session.id)
        return session

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _create(self, request: FetchRequest, now_ms: int, *, by_id: bool) -> FetchSession | None:
        if len(self._sessions) >= self._sessions_max:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < self._idle_min_ms:
                return None
            self._end(oldest.id)
            self.evictions += 1
        session_id = self._random.randint(1, _ID_MAX)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _ID_MAX)
        session = self._sessions[session_id] = FetchSession(session_id, by_id=by_id)
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
