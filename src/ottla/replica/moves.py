"""A replica moves from one log directory of the broker to another, while it is written to and read.

A *future log* in the other directory takes over what the current one has, batch for batch, like a follower that lives next door.
Once it has everything it takes the current one's place, between two requests: nobody appends meanwhile, and whoever reads a
file of the old one keeps it.

A crash leaves one of three things behind, and the next start goes on from there (``settle``):

    current and future        the copy begins anew, unless the broker had stopped cleanly: what neither log had on disk
                              may differ between them
    current in two places     the new one was on disk whole when it got its name, so it is the longer one or as long: it stays.
                              If it lacks anything that the other has, no move left them behind, and the broker does not start
    the new one alone         done

If something is cut off the current log, or cleaned out of it, what was copied may not be what is there: the copy begins anew,
and cleaners leave alone what is being moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID

from ottla.base.errors import ConfigError, CorruptionError
from ottla.log import FileRange, Log, LogConfig, LogDirectory, StorageError
from ottla.log import TopicPartition as LogPartition
from ottla.metadata.ids import TopicPartition
from ottla.replica.partition import Partition

logger = logging.getLogger(__name__)


class Move:
    """One replica on its way."""

    def __init__(self, current: Log, future: Log, target: LogDirectory) -> None:
        self.current = current
        self.future = future
        self.target = target
        self._generation = current.generation

    def next(self, max_bytes: int, *, now_ms: int) -> FileRange | None:
        """What is to be copied next; None if the future log has everything."""
        current, future = self.current, self.future
        if current.generation != self._generation or future.log_end_offset > current.log_end_offset:
            self.begin_anew(now_ms=now_ms)
        if future.log_end_offset < current.log_start_offset and future.log_end_offset != _first_offset(current):
            self.begin_anew(now_ms=now_ms)
        found = current.read(max(future.log_end_offset, current.log_start_offset), max_bytes)
        if found.range is None:
            future.skip_to(current.log_end_offset, now_ms=now_ms)
        return found.range

    def take(self, data: bytes, *, now_ms: int) -> None:
        """What ``next`` told of was read. If the current log is another by now, it is not what it was."""
        if self.current.generation == self._generation:
            self.future.append_as_follower(data, now_ms=now_ms)

    def begin_anew(self, *, now_ms: int) -> None:
        self._generation = self.current.generation
        self.future.truncate_fully_and_start_at(_first_offset(self.current), now_ms=now_ms)

    @property
    def lag(self) -> int:
        return self.current.log_end_offset - self.future.log_end_offset

    def finish(self, *, now_ms: int) -> None:
        """Make the future log, which has every batch, what the current one is in all else, and put it on disk."""
        current, future = self.current, self.future
        future.update_high_watermark(current.high_watermark)
        future.increment_log_start_offset(current.log_start_offset)
        for entry in current.epochs.entries:
            if entry.epoch > future.epochs.latest:
                future.epochs.assign(*entry)
        future.cleaned_to = current.cleaned_to
        future.flush(now_ms=now_ms)


class Moves:
    """All that are under way, and which directory a replica comes into that is new."""

    def __init__(self, directories: Sequence[LogDirectory], config_for: Callable[[str], LogConfig]) -> None:
        self._directories = directories
        self._config_for = config_for
        self._moves: dict[tuple[str, int], Move] = {}
        self._preferred: dict[tuple[str, int], LogDirectory] = {}

    def of(self, where: TopicPartition) -> Move | None:
        return self._moves.get(where)

    def prefer(self, where: TopicPartition, target: LogDirectory) -> None:
        """Where somebody wants a replica to be once it comes."""
        self._preferred[where] = target

    def place(self, where: TopicPartition, coming: Sequence[int] | None = None) -> LogDirectory:
        """For a replica that is new here: where it is wanted, or where there are the fewest, ``coming`` ones included."""

        def held(number: int) -> tuple[bool, int]:
            directory = self._directories[number]
            count = len(directory.logs) + len(directory.future_logs) + (coming[number] if coming else 0)
            return directory.health.failure is not None, count

        preferred = self._preferred.pop(where, None)
        if preferred is not None and preferred.health.failure is None:
            return preferred
        return self._directories[min(range(len(self._directories)), key=held)]

    def opened(self, partition: Partition) -> None:
        """A partition is here; perhaps it was being moved when the broker stopped."""
        key = LogPartition(*partition.where)
        for directory in self._directories:
            if key in directory.future_logs:
                self._moves[partition.where] = Move(partition.log, directory.future_logs[key], directory)

    def begin(self, partition: Partition, target: LogDirectory, *, now_ms: int) -> bool:
        """Have a replica copied into ``target``; False if it is there, or on its way already."""
        where, key = partition.where, LogPartition(*partition.where)
        move = self._moves.get(where)
        if move is not None and move.target is target:
            return False
        self.end(where, now_ms=now_ms)
        if key in target.logs:
            return False
        for directory in self._directories:
            directory.health.check()  # or what lies there might be the same replica
        topic_id = None if partition.topic_id is None else UUID(bytes=partition.topic_id)
        future = target.create_future(key, self._config_for(where.topic), topic_id=topic_id, now_ms=now_ms)
        move = self._moves[where] = Move(partition.log, future, target)
        move.begin_anew(now_ms=now_ms)
        return True

    def end(self, where: TopicPartition, *, now_ms: int) -> None:
        """It stays where it is."""
        move = self._moves.pop(where, None)
        if move is not None:
            with suppress(StorageError):
                move.target.delete_future(LogPartition(*where), now_ms=now_ms)

    def finish(self, partition: Partition, *, now_ms: int) -> None:
        """The copy, which has every batch, takes the place of what it was made from."""
        where, key = partition.where, LogPartition(*partition.where)
        move = self._moves[where]
        source = next(directory for directory in self._directories if key in directory.logs)
        move.finish(now_ms=now_ms)
        promoted = move.target.promote(key)
        promoted.on_damage = partition.log.on_damage
        partition.log = promoted
        del self._moves[where]
        with suppress(StorageError):  # it is offline then, and has said why; what is left there goes at the next start
            source.delete(key, now_ms=now_ms)
        partition.wake()

    def failed(self, directory: LogDirectory) -> None:
        """A directory is offline: nothing moves into it or out of it any more."""
        for where, move in list(self._moves.items()):
            if move.target is directory or LogPartition(*where) in directory.logs:
                self._moves.pop(where)
        directory.future_logs.clear()


def settle(directories: Sequence[LogDirectory], *, now_ms: int) -> None:
    """Make of what a stop or a crash has left behind what can be gone on with."""
    usable = [directory for directory in directories if directory.health.failure is None]
    for directory in usable:
        for where in list(directory.logs):
            others = [each for each in usable if each is not directory and where in each.logs]
            if others:
                _keep_one(where, [directory, *others], now_ms=now_ms)
    for directory in usable:
        for where in list(directory.future_logs):
            current = next((each.logs[where] for each in usable if where in each.logs), None)
            if current is None or where in directory.logs:
                directory.delete_future(where, now_ms=now_ms)
            elif not all(each.was_clean for each in usable):
                Move(current, directory.future_logs[where], directory).begin_anew(now_ms=now_ms)


def _first_offset(log: Log) -> int:
    """Where its first batch begins: a log may start within it."""
    first = next(log.batches(log.log_start_offset), None)
    return log.log_start_offset if first is None else min(first.header.base_offset, log.log_start_offset)


def _keep_one(where: LogPartition, directories: list[LogDirectory], *, now_ms: int) -> None:
    if len({directory.topic_id(where) for directory in directories}) > 1:
        places = " and ".join(str(directory.path) for directory in directories)
        raise ConfigError(f"log.dirs: {where} is in {places}, and belongs to different topics of that name")
    kept = max(directories, key=lambda each: each.logs[where].log_end_offset)
    for directory in directories:
        if directory is not kept and not _has_all(kept.logs[where], directory.logs[where]):
            raise ConfigError(
                f"log.dirs: {where} is in {directory.path} and in {kept.path}, and one does not hold what the other has; "
                "put away the one that is not to be served"
            )
    for directory in directories:
        if directory is not kept:
            logger.warning("%s was moved from %s to %s; what is left is deleted", where, directory.path, kept.path)
            directory.delete(where, now_ms=now_ms)


def _has_all(log: Log, other: Log) -> bool:
    """Whether every batch of ``other`` is in ``log``, but for what lies before its start: that was deleted where it went on."""
    start = max(log.log_start_offset, other.log_start_offset)
    try:
        mine = (each.header for each in log.batches(start))
        return all(next(mine, None) == theirs.header for theirs in other.batches(start))
    except CorruptionError:
        return False
