"""All partitions of one broker, over its log directories.

What the controller orders is applied here: logs are made for new replicas, in the directory that holds the fewest, and
taken out when a topic is deleted or a replica moves away. One may also move between directories (``moves``). Who is to follow is told to the fetchers. High watermarks go to a
checkpoint from time to time and come back from it.

A log that was found damaged never leads: its partition is answered with a storage error, and nothing is made in its place,
until another broker leads. Then the damaged log is set aside, and what it held is fetched again. If it is found while the log is
used, that holds only where others have it in sync; a last one goes on to serve what is sound of it.
The partitions of a log directory that failed are answered so until a restart.
A log that belongs to another topic of the same name is not led, for nobody else might have its records, and is set aside where
another broker leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from ottla.base.errors import CorruptionError
from ottla.log import LogConfig, LogDirectory, StorageError
from ottla.log import TopicPartition as LogPartition
from ottla.log.creation import Creation, NewLog
from ottla.log.directory import Collect, Write
from ottla.metadata.ids import NO_LEADER, BrokerId, TopicId, TopicPartition
from ottla.metadata.image import Image
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.metadata.znodes.topics import Replicas as Assigned
from ottla.replica.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotHereError,
    OfflinePartitionError,
    StaleOrderError,
    UnknownPartitionError,
    UnknownTopicIdError,
)
from ottla.replica.moves import Moves
from ottla.replica.partition import NO_EPOCH, Partition, Proposals

log = logging.getLogger(__name__)

EPOCH_DURING_DELETE: Final = -2
"""The leader epoch of an order that holds whatever came before: the topic is being deleted."""

ConfigFor = Callable[[str], LogConfig]
Listener = Callable[[Partition], None]


class Order(NamedTuple):
    """Who leads a partition, as one broker is told."""

    where: TopicPartition
    topic_id: TopicId | None
    state: LeaderAndIsr
    replicas: Assigned
    is_new: bool = False
    """Nobody has led it before, so nobody has records of it."""


class Fetchers(Protocol):
    """Who keeps followers up to date."""

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, in its present epoch."""
        ...

    def forget(self, partition: Partition) -> None:
        """Fetch for this partition no more."""
        ...


class Replicas:
    """The partitions on this broker, by topic name and by topic id."""

    def __init__(
        self,
        broker_id: BrokerId,
        directories: Sequence[LogDirectory],
        config_for: ConfigFor,
        *,
        min_insync_for: Callable[[str], int] = lambda _topic: 1,
        fetchers: Fetchers | None = None,
        proposals: Proposals | None = None,
        image: Callable[[], Image] = Image,
    ) -> None:
        self.broker_id = broker_id
        self._image = image
        self.directories = directories
        self._config_for = config_for
        self._listeners: list[Listener] = []
        self._min_insync_for = min_insync_for
        self._fetchers = fetchers
        self._proposals = proposals
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._numbers: dict[str, set[int]] = {}
        """Of the partitions of each topic."""
        self._topic_names: dict[bytes, str] = {}
        self.moves = Moves(directories, config_for)
        failed = [directory for directory in directories if directory.health.failure is not None]
        self._offline: set[tuple[str, int]] = {where for each in failed for where in each.partitions_on_disk()}
        self._high_watermarks = {
            where: offset
            for directory in directories
            if directory not in failed
            for where, offset in directory.read_high_watermarks().items()
        }
        self.on_damage: Callable[[TopicPartition, CorruptionError], object] | None = None
        """Hears of a log that is found to be damaged while it is read or written, and is to ``give_up`` after that."""
        self._checkpointed: set[tuple[str, int]] = set(self._high_watermarks)
        """Whose high watermarks are written down, or were."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, where: tuple[str, int]) -> bool:
        return where in self._partitions

    def holds(self, partition: Partition) -> bool:
        """It is this very one that is here, and it has not gone meanwhile."""
        return self._partitions.get(partition.where) is partition

    def partition(self, topic: str, index: int) -> Partition:
        found = self._partitions.get((topic, index))
        if found is None:
            if (topic, index) in self._offline:
                raise OfflinePartitionError(f"the log directory of {topic}-{index} is offline")
            if self._corrupt_in(LogPartition(topic, index)) is not None:
                raise OfflinePartitionError(f"the log of {topic}-{index} is damaged, and stays closed")
            if self._image().assignment(TopicPartition(topic, index)) is not None:
                raise NotHereError(f"{topic}-{index} is not on this broker")
            raise UnknownPartitionError(f"{topic}-{index} is not known here")
        return found

    def listen(self, listener: Listener) -> None:
        """Call it with every partition whose state is new, or that is not served here any more."""
        self._listeners.append(listener)

    def topic_name(self, topic_id: bytes) -> str:
        found = self._topic_names.get(topic_id) or self._image().topic_names.get(TopicId(topic_id))
        if found is None:
            raise UnknownTopicIdError("no topic here has this id")
        return found

    def was_told_of(self, where: TopicPartition) -> bool:
        """It is led or followed here, or it turned out that it cannot be."""
        return where in self._partitions or where in self._offline or self._corrupt_in(LogPartition(*where)) is not None

    # What the controller says.

    def obey(self, order: Order, *, now_ms: int, now_s: float) -> None:
        """Lead or follow as ordered; raises what the controller is to be told."""
        where, topic_id = order.where, order.topic_id
        known = self._partitions.get(where)
        may_set_aside = order.is_new or order.state.leader not in (NO_LEADER, self.broker_id)
        if known is not None and not _is_of(known.topic_id, topic_id):
            if not may_set_aside:
                raise InconsistentTopicIdError(f"{where}: the topic here has another id")
            self._release(where, known, now_ms=now_ms)
            known = None
        if known is None and not may_set_aside:
            self._check_topic_id(where, topic_id)
        if known is not None and order.state.leader_epoch < known.leader_epoch + (not known.is_stopped):
            raise StaleOrderError(f"{where}: epoch {order.state.leader_epoch}, this is {known.leader_epoch}")
        if self.broker_id not in order.replicas:
            raise UnknownPartitionError(f"{where} is not assigned to broker {self.broker_id}")
        self._become(order, now_ms=now_ms, now_s=now_s)

    def begin_creation(self, orders: Iterable[Order], *, now_ms: int) -> list[tuple[LogDirectory, Creation]]:
        """The logs of replicas that are new here, to be made before ``obey``, which makes one at a time and waits for it.

        What speaks against an order is told by ``obey``.
        """
        wanted: dict[int, dict[LogPartition, NewLog]] = {}
        for order in orders:
            where, key = order.where, LogPartition(*order.where)
            if where in self._partitions or where in self._offline or self.broker_id not in order.replicas:
                continue
            if self._directory_of(where) is None and self._corrupt_in(key) is None:
                counts = [len(wanted.get(number, ())) for number in range(len(self.directories))]
                number = self.directories.index(self.moves.place(where, coming=counts))
                topic_id = None if order.topic_id is None else UUID(bytes=order.topic_id)
                wanted.setdefault(number, {})[key] = NewLog(self._config_for(where.topic), topic_id)
        self._forget_marks(key for logs in wanted.values() for key in logs)
        return [
            (self.directories[number], self.directories[number].begin_creation(logs, now_ms=now_ms))
            for number, logs in wanted.items()
        ]

    def stop(self, where: TopicPartition, *, leader_epoch: int, delete: bool, now_ms: int) -> None:
        """Neither lead nor follow any more, and with ``delete`` keep nothing: the directory is to be settled then."""
        if where in self._offline:
            raise OfflinePartitionError(f"the log directory of {where} is offline")
        partition = self._partitions.get(where)
        if partition is None:
            if delete:
                self._delete_log(where, now_ms=now_ms)
            return
        if leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH) and leader_epoch < partition.leader_epoch:
            raise FencedLeaderEpochError(f"{where}: epoch {leader_epoch} is over, this is {partition.leader_epoch}")
        if delete:
            self._release(where, partition, now_ms=now_ms)
            self._delete_log(where, now_ms=now_ms)
        else:
            self._let_go(partition)

    def resign_all(self) -> None:
        """This broker is not registered any more, and whoever else leads is not known yet."""
        for partition in list(self._partitions.values()):
            self._let_go(partition)

    def brokers_gone(self, brokers: Iterable[BrokerId]) -> None:
        """These are not there any more, so no leader here waits for what they would have fetched."""
        for broker_id in brokers:
            for partition in self._partitions.values():
                partition.broker_gone(broker_id)

    def brokers_back(self, brokers: Iterable[BrokerId]) -> None:
        """These are there again, and may have fetched before that was told."""
        for broker_id in brokers:
            for partition in self._partitions.values():
                partition.broker_back(broker_id)

    def configure(self, topic: str, config: LogConfig, *, min_insync_replicas: int) -> None:
        """A topic's settings as they are now."""
        for number in self._numbers.get(topic, ()):
            partition = self._partitions[topic, number]
            partition.min_insync_replicas = min_insync_replicas
            if partition.log.config != config:
                partition.log.configure(config)

    def take_offline(self, directory: LogDirectory) -> None:
        """A log directory failed: nobody is served from it any more, and whoever waits is told."""
        for where in [where for where in self._partitions if LogPartition(*where) in directory.logs]:
            partition = self._forget(where)
            self._offline.add(where)
            self._let_go(partition)
        # What this broker was not told of yet would be led from a dead disk.
        self._offline.update((where.topic, where.partition) for where in directory.logs)
        self.moves.failed(directory)

    def give_up(self, where: TopicPartition, damage: CorruptionError, *, now_ms: int) -> bool:
        """Part with a replica whose log is damaged, if another broker has one in sync; whether the controller is to be told.

        From then on it is as one that was found to be damaged at the start (``_mend``).
        """
        partition = self._partitions.get(where)
        directory = self._directory_of(where)
        if partition is None or directory is None or not partition.others_have_it:
            return False
        self.moves.end(where, now_ms=now_ms)
        directory.give_up(LogPartition(*where), damage)
        self._forget(where)
        self._let_go(partition)
        return True

    def checkpoint(self) -> None:
        """Write the high watermarks down, and how far the logs are on disk."""
        self._checkpointed = set()
        for collect in self.checkpoints():
            with suppress(StorageError):  # what failed is offline, and has said why
                collect()()

    def checkpoints(self) -> list[Collect]:
        """The same, file by file: each is collected on the event loop, and then written in any thread."""
        found: list[Collect] = []
        for directory in self.directories:
            found.append(partial(self._collect_high_watermarks, directory))
            found += directory.checkpoints()
        return found

    def _collect_high_watermarks(self, directory: LogDirectory) -> Write:
        partitions = self._partitions
        marks = {where: partitions[where].log.high_watermark for where in directory.logs if where in partitions}
        self._checkpointed.update(marks)
        return directory.collect_high_watermarks(marks)

    def _become(self, order: Order, *, now_ms: int, now_s: float) -> None:
        where = order.where
        if where in self._offline:
            raise OfflinePartitionError(f"the log directory of {where} is offline")
        if order.topic_id is not None:
            self._topic_names[order.topic_id] = where.topic
        try:
            self._mend(order)
            partition = self._partitions.get(where) or self._open(where, order.topic_id, now_ms=now_ms)
            partition.topic_id = partition.topic_id or order.topic_id
            if partition.become(order.state, order.replicas, now_s=now_s):
                self._tell(partition)
        except StorageError as error:
            # The directory has said why.
            self._offline.add(where)
            raise OfflinePartitionError(str(error)) from error

    def _mend(self, order: Order) -> None:
        """A damaged log may not lead. Where another broker does, there is somebody to fetch everything from again."""
        key = LogPartition(*order.where)
        directory = self._corrupt_in(key)
        if directory is None:
            return
        if not _is_uuid_of(directory.topic_id(key), order.topic_id):
            directory.set_aside(key)  # of an earlier topic of that name, which nobody will want to lead
            return
        if order.state.leader in (NO_LEADER, self.broker_id):
            raise OfflinePartitionError(f"the log of {order.where} is damaged, and stays closed")
        log.warning("%s was damaged: it is set aside, and fetched again from broker %d", key, order.state.leader)
        directory.set_aside(key)

    def _release(self, where: TopicPartition, partition: Partition, *, now_ms: int) -> None:
        """It is no replica any more; its log is left as it is."""
        self._let_go(partition)
        self.moves.end(where, now_ms=now_ms)
        self._forget(where)
        if partition.topic_id is not None and where.topic not in self._numbers:
            self._topic_names.pop(partition.topic_id, None)

    def _let_go(self, partition: Partition) -> None:
        partition.resign()
        self._tell(partition)

    def _tell(self, partition: Partition) -> None:
        if self._fetchers is not None:
            if partition.is_leader or partition.leader == NO_LEADER:
                self._fetchers.forget(partition)
            else:
                self._fetchers.follow(partition)
        for listener in self._listeners:
            listener(partition)

    def _check_topic_id(self, where: TopicPartition, topic_id: TopicId | None) -> None:
        """What is here may not be led as another topic, nor make room for one that is not new: nobody else might have the records."""
        directory = self._directory_of(where)
        if directory is None:
            return
        found = directory.topic_id(LogPartition(*where))
        if not _is_uuid_of(found, topic_id):
            raise InconsistentTopicIdError(
                f"{directory.path / str(LogPartition(*where))} holds a topic of that name with another id, {found}; "
                f"remove it if nobody needs its records"
            )

    def _open(self, where: TopicPartition, topic_id: TopicId | None, *, now_ms: int) -> Partition:
        key = LogPartition(*where)
        directory = self._directory_of(where)
        if directory is not None and not _is_uuid_of(directory.topic_id(key), topic_id):
            log.warning("%s holds the records of another topic of that name: it is set aside, and fetched anew", where)
            self._set_aside(directory, key, now_ms=now_ms)
            directory = None
        if directory is None:
            directory = self.moves.place(where)
            self._forget_marks((key,))
            made = directory.create(
                key,
                self._config_for(where.topic),
                topic_id=None if topic_id is None else UUID(bytes=topic_id),
                now_ms=now_ms,
            )
        else:
            made = directory.logs[key]
            made.update_high_watermark(self._high_watermarks.get(key, 0))
            if topic_id is not None and directory.topic_id(key) is None:
                directory.assign_topic_id(key, UUID(bytes=topic_id))
        made.on_damage = partial(self._damaged, where)
        partition = Partition(where, topic_id, made, self.broker_id, self._proposals)
        partition.min_insync_replicas = self._min_insync_for(where.topic)
        self._partitions[where] = partition
        self._numbers.setdefault(where.topic, set()).add(where.partition)
        self.moves.opened(partition)
        return partition

    def _damaged(self, where: TopicPartition, damage: CorruptionError) -> None:
        if self.on_damage is not None:
            self.on_damage(where, damage)

    def _set_aside(self, directory: LogDirectory, key: LogPartition, *, now_ms: int) -> None:
        """A copy that is on its way to another directory has nothing that the log itself lacks."""
        for each in self.directories:
            if key in each.future_logs:
                each.delete_future(key, now_ms=now_ms)
        directory.set_aside(key)

    def _forget_marks(self, coming: Iterable[LogPartition]) -> None:
        """Or after a crash, a new log would be held to the high watermark of an earlier one of that name."""
        if not self._checkpointed.isdisjoint(coming):
            self.checkpoint()

    def _forget(self, where: tuple[str, int]) -> Partition:
        topic, number = where
        self._numbers[topic].discard(number)
        if not self._numbers[topic]:
            del self._numbers[topic]
        return self._partitions.pop(where)

    def _delete_log(self, where: TopicPartition, *, now_ms: int) -> None:
        self.moves.end(where, now_ms=now_ms)
        key = LogPartition(*where)
        directory, damaged_in = self._directory_of(where), self._corrupt_in(key)
        with suppress(StorageError):
            if directory is not None:
                directory.delete(key, now_ms=now_ms, settled=False)
            if damaged_in is not None:
                damaged_in.set_aside(key)

    def _corrupt_in(self, key: LogPartition) -> LogDirectory | None:
        return next((directory for directory in self.directories if key in directory.corrupt), None)

    def _directory_of(self, where: TopicPartition) -> LogDirectory | None:
        key = LogPartition(*where)
        return next((directory for directory in self.directories if key in directory.logs), None)


def _is_of(known: TopicId | None, topic_id: TopicId | None) -> bool:
    """Logs and topics of old have no id, and nothing can be said about them."""
    return known is None or topic_id is None or known == topic_id


def _is_uuid_of(found: UUID | None, topic_id: TopicId | None) -> bool:
    return found is None or _is_of(TopicId(found.bytes), topic_id)
