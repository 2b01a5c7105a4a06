"""A log directory: the partitions on one disk, locked for one broker, and the checkpoints that they share.

    log.dirs/
      .lock                               held as long as a broker uses the directory
      .kafka_cleanshutdown                there between a clean stop and the next start
      meta.properties                     which broker and cluster it belongs to
      recovery-point-offset-checkpoint    up to where each log is known to be on disk
      log-start-offset-checkpoint         for logs that start within their first segment
      replication-offset-checkpoint       high watermarks
      cleaner-offset-checkpoint           how far compacted logs are cleaned
      TOPIC-PARTITION/                    one log
      TOPIC-PARTITION.ID-delete/          one that is being deleted
      TOPIC-PARTITION.ID-future/          one that is being moved here from another directory
      TOPIC-PARTITION.ID-stray/           one that is not used any more and is kept for whoever wants to look into it

Loading takes the clean-shutdown mark away before it opens anything, so a crash while loading counts as one. A partition
whose files are damaged where no crash explains it stays closed and is listed in ``corrupt``; the others load. No clean
mark is written over such a directory, or its next start would believe unread what this one refused. Nothing at all is
written to one that was never loaded, for nothing is known of what is in it.

Many logs may come or go at once (``creation``, ``delete`` and ``settle_deletions``): they are on disk together then.

The first ``OSError`` takes the directory offline (``files.Health``); other directories of the broker go on.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from ottla.base.errors import ConfigError, CorruptionError
from ottla.log.checkpoints import (
    MetaProperties,
    OffsetsFile,
    TopicPartition,
    encode_topic_id,
    read_clean_shutdown,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
)
from ottla.log.config import LogConfig
from ottla.log.creation import PARTITION_METADATA, Creation, NewLog
from ottla.log.errors import StorageError
from ottla.log.files import FILE_MODE, Health, fsync_directory, remove_if_there, write_whole
from ottla.log.loader import Loading, Recovery, load_log
from ottla.log.log import Log

logger = logging.getLogger(__name__)

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
_PARTITION = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_MARKED = re.compile(r"(\S+)-(\d+)\.(\w{32})(-delete|-future)")

ConfigFor = Callable[[str], LogConfig]
Write = Callable[[], None]
Collect = Callable[[], Write]
Progress = Callable[[int, int], None]


class LogDirectory:
    """One entry of ``log.dirs``, taken for this process. ``load`` opens its logs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.health = Health(path)
        self.logs: dict[TopicPartition, Log] = {}
        self.future_logs: dict[TopicPartition, Log] = {}
        self.recoveries: dict[TopicPartition, Recovery] = {}
        self.corrupt: dict[TopicPartition, CorruptionError] = {}
        self.was_clean = False
        self.broker_epoch_of_stop = -1
        self._is_loaded = False
        self._doomed: list[tuple[int, Path]] = []
        self._recovery_points = OffsetsFile(path / RECOVERY_POINTS)
        self._log_start_offsets = OffsetsFile(path / LOG_START_OFFSETS)
        self._high_watermarks = OffsetsFile(path / HIGH_WATERMARKS)
        self._corrupt_recovery_points: dict[TopicPartition, int] = {}
        self._given_up: dict[TopicPartition, Log] = {}
        """Of those that are corrupt, what was opened all the same."""
        self.has_deleted = False
        """Logs went that may be back after a crash, and that the checkpoints still name: ``settle_deletions`` is due."""
        self._lock = -1
        # A disk that refuses is no reason to do without the others: it is offline, and has said why.
        with suppress(StorageError), self.health.guard("opening"):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _take_lock(path)

    # ------------------------------------------------------------------ whose it is

    @property
    def meta(self) -> MetaProperties | None:
        return read_meta_properties(self.path / META_PROPERTIES)

    def claim(self, meta: MetaProperties, *, now_ms: int) -> None:
        """Make sure that the directory belongs to this broker, and say so in it if it belongs to none."""
        with self.health.guard("reading and writing meta.properties"):
            found = self.meta
            if found is None:
                write_meta_properties(self.path / META_PROPERTIES, meta, now_ms=now_ms)
        if found not in (None, meta):
            assert found is not None
            raise ConfigError(
                f"{self.path} belongs to broker {found.broker_id} of cluster {found.cluster_id}, this is broker "
                f"{meta.broker_id} of cluster {meta.cluster_id}"
            )

    # ------------------------------------------------------------------ load

    def load(self, config_for: ConfigFor, *, now_ms: int, progress: Progress | None = None) -> None:
        """Open every log in the directory. ``progress`` hears how many of how many are done."""
        with self.health.guard("loading"):
            broker_epoch = read_clean_shutdown(self.path / CLEAN_SHUTDOWN)
            self.was_clean = broker_epoch is not None
            self.broker_epoch_of_stop = -1 if broker_epoch is None else broker_epoch
            remove_if_there(self.path / CLEAN_SHUTDOWN)
            fsync_directory(self.path)
            recovery_points = self._offsets_or_none(RECOVERY_POINTS)
            start_offsets = self._offsets_or_none(LOG_START_OFFSETS)
            cleaned = self._offsets_or_none(CLEANER_OFFSETS)
            folders = list(self._folders(now_ms=now_ms))
            here = {topic_partition for topic_partition, _, is_future in folders if not is_future}
        for number, (topic_partition, folder, is_future) in enumerate(folders, start=1):
            loading = Loading(
                folder,
                topic_partition,
                config_for(topic_partition.topic),
                self.health,
                log_start_offset=0 if is_future and topic_partition in here else start_offsets.get(topic_partition, 0),
                # The name of a log that is being moved here may be that of one that is here.
                recovery_point=0 if is_future and topic_partition in here else recovery_points.get(topic_partition, 0),
                clean=self.was_clean,
                cleaned_to=None if is_future and topic_partition in here else cleaned.get(topic_partition),
            )
            self._load(loading, is_future=is_future, now_ms=now_ms)
            if progress is not None:
                progress(number, len(folders))
        self._is_loaded = True
        self.checkpoint()

    def _load(self, loading: Loading, *, is_future: bool, now_ms: int) -> None:
        topic_partition = loading.topic_partition
        try:
            log, recovery = load_log(loading, now_ms=now_ms, write_checkpoints=self._checkpoint_cut)
        except CorruptionError as error:
            logger.error("%s stays closed: %s", topic_partition, error)  # noqa: TRY400 - what happened is in the message
            self.corrupt[topic_partition] = error
            self._corrupt_recovery_points[topic_partition] = loading.recovery_point
            return
        (self.future_logs if is_future else self.logs)[topic_partition] = log
        self.recoveries[topic_partition] = recovery

    def partitions_on_disk(self) -> set[TopicPartition]:
        """Whose logs lie here, as far as the names of folders tell: for when nothing else can be read."""
        names = (_PARTITION.fullmatch(entry.name) for entry in self.path.iterdir())
        return {TopicPartition(name[1], int(name[2])) for name in names if name is not None}

    def _offsets_or_none(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint; one that cannot be read is as good as none, for logs are then read from their start."""
        try:
            return read_offsets(self.path / name)
        except CorruptionError as error:
            logger.warning("%s; doing without", error)
            self.was_clean = False
            return {}

    def _folders(self, *, now_ms: int) -> Iterator[tuple[TopicPartition, Path, bool]]:
        for entry in sorted(self.path.iterdir()):
            if not entry.is_dir():
                continue
            marked = _MARKED.fullmatch(entry.name)
            plain = _PARTITION.fullmatch(entry.name)
            if marked is not None and marked[4] == DELETE_SUFFIX:
                self._doomed.append((now_ms, entry))
            elif marked is not None:
                yield TopicPartition(marked[1], int(marked[2])), entry, True
            elif plain is not None:
                yield TopicPartition(plain[1], int(plain[2])), entry, False
            elif not entry.name.endswith(STRAY_SUFFIX):
                logger.warning("%s is no partition; it is left alone", entry)

    # ------------------------------------------------------------------ create and delete

    def create(self, topic_partition: TopicPartition, config: LogConfig, *, topic_id: UUID | None, now_ms: int) -> Log:
        """The log of a partition that is new here."""
        creation = self.begin_creation({topic_partition: NewLog(config, topic_id)}, now_ms=now_ms)
        creation.make()
        self.finish_creation(creation)
        return self.logs[topic_partition]

    def create_future(
        self, topic_partition: TopicPartition, config: LogConfig, *, topic_id: UUID | None, now_ms: int
    ) -> Log:
        """The log of a partition that is to be moved here from another directory."""
        ending = f".{uuid4().hex}{FUTURE_SUFFIX}"
        creation = self.begin_creation({topic_partition: NewLog(config, topic_id)}, now_ms=now_ms, ending=ending)
        creation.make()
        self.future_logs.update(creation.logs)
        return self.future_logs[topic_partition]

    def begin_creation(self, wanted: Mapping[TopicPartition, NewLog], *, now_ms: int, ending: str = "") -> Creation:
        """Logs of partitions that are new here, to be made by ``Creation.make``, which may run in any thread."""
        assert self.logs.keys().isdisjoint(wanted), f"some of {list(wanted)} are here already"
        return Creation(
            self.path, self.health, wanted, now_ms=now_ms, write_checkpoints=self._checkpoint_cut, ending=ending
        )

    def finish_creation(self, creation: Creation) -> None:
        """They are made."""
        self.logs.update(creation.logs)

    def promote(self, topic_partition: TopicPartition) -> Log:
        """What was moved here has everything, and is the partition's log from now on."""
        log = self.future_logs[topic_partition]
        with self.health.guard(f"move of {topic_partition}"):
            target = self.path / str(topic_partition)
            log.directory.replace(target)
            fsync_directory(self.path)
            log.moved(target)
        self.logs[topic_partition] = self.future_logs.pop(topic_partition)
        self._checkpoint_cut()
        return log

    def assign_topic_id(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        """A log of old has none, nor has one whose making was interrupted, and a later topic of its name is not to take it for its own."""
        with self.health.guard(f"topic id of {topic_partition}"):
            path = self.path / str(topic_partition) / PARTITION_METADATA
            write_whole(path, encode_topic_id(topic_id), synced=False)

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        return read_topic_id(self.path / str(topic_partition) / PARTITION_METADATA)

    def delete(self, topic_partition: TopicPartition, *, now_ms: int, settled: bool = True) -> None:
        """Take a log out at once; its files go after ``file.delete.delay.ms``. Unless ``settled``, that is to follow."""
        self._delete(self.logs.pop(topic_partition), now_ms=now_ms)
        if settled:
            self._settle_now()

    def delete_future(self, topic_partition: TopicPartition, *, now_ms: int) -> None:
        """It is not moved here any more."""
        self._delete(self.future_logs.pop(topic_partition), now_ms=now_ms)
        self._settle_now()

    def _delete(self, log: Log, *, now_ms: int) -> None:
        topic_partition = log.topic_partition
        with self.health.guard(f"deletion of {topic_partition}"):
            target = self.path / f"{topic_partition}.{uuid4().hex}{DELETE_SUFFIX}"
            log.directory.replace(target)
            log.abandon()
            log.moved(target)
            self._doomed.append((now_ms + log.config.file_delete_delay_ms, target))
        self.has_deleted = True

    def sync_deletions(self) -> None:
        """Logs that were deleted stay so. In any thread; ``settle_deletions`` is to follow."""
        with self.health.guard("deletion of logs"):
            fsync_directory(self.path)

    def settle_deletions(self) -> None:
        """Or a partition of the same name would be held to the recovery point of the one that is gone."""
        self.has_deleted = False
        self.checkpoint()
        if (self.path / CLEANER_OFFSETS).exists():
            self.checkpoint_cleaned()

    def _settle_now(self) -> None:
        self.sync_deletions()
        self.settle_deletions()

    def give_up(self, topic_partition: TopicPartition, damage: CorruptionError) -> None:
        """A log was found to be damaged while it was used, and stays closed from now on, as if that had been found at the start."""
        log = self.logs.pop(topic_partition)
        log.abandon()
        self._given_up[topic_partition] = log
        self.corrupt[topic_partition] = damage
        self._corrupt_recovery_points[topic_partition] = log.recovery_point

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Make room for another log in the place of one that is damaged, or another topic's. Its files stay."""
        log = self.logs.pop(topic_partition, None) or self._given_up.pop(topic_partition, None)
        with self.health.guard(f"setting {topic_partition} aside"):
            target = self.path / f"{topic_partition}.{uuid4().hex}{STRAY_SUFFIX}"
            (self.path / str(topic_partition)).replace(target)
            fsync_directory(self.path)
        if log is not None:
            log.abandon()
            log.moved(target)  # somebody may still be at work on it
        self.corrupt.pop(topic_partition, None)
        self._corrupt_recovery_points.pop(topic_partition, None)
        self.settle_deletions()

    def delete_marked(self, *, now_ms: int) -> None:
        """Remove what was deleted long enough ago: files of segments, and folders of partitions."""
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.delete_marked(now_ms=now_ms)
        self.remove_folders(self.take_doomed(now_ms=now_ms))

    def take_doomed(self, *, now_ms: int) -> list[Path]:
        """The folders of partitions that were deleted long enough ago, for ``remove_folders``."""
        due = [folder for due_ms, folder in self._doomed if due_ms <= now_ms]
        if due:
            self._doomed = [doomed for doomed in self._doomed if doomed[0] > now_ms]
        return due

    def remove_folders(self, folders: Iterable[Path]) -> None:
        """In any thread."""
        with self.health.guard("deletion"):
            for folder in folders:
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()

    # ------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> None:
        """Write down from where on logs are to be recovered, and where those start that start within a segment."""
        for collect in self.checkpoints():
            collect()()

    def checkpoints(self) -> tuple[Collect, ...]:
        """The same, file by file: each is collected where logs change, and then written in any thread."""
        return self._collect_recovery_points, self._collect_log_start_offsets

    def checkpoint_cleaned(self) -> None:
        with self.health.guard("checkpoint of the cleaner"):
            cleaned = {where: log.cleaned_to for where, log in self.logs.items() if log.cleaned_to is not None}
            write_offsets(self.path / CLEANER_OFFSETS, cleaned)

    def _checkpoint_cut(self) -> None:
        """A log is about to be cut: neither may a crash bring back what was known of its end, nor that it was clean."""
        self.checkpoint()
        self.checkpoint_cleaned()

    def _collect_recovery_points(self) -> Write:
        points = {where: log.recovery_point for logs in (self.future_logs, self.logs) for where, log in logs.items()}
        points.update(self._corrupt_recovery_points)
        return self._guarded("checkpoint of recovery points", self._recovery_points.collect(points))

    def _collect_log_start_offsets(self) -> Write:
        within = {where: log.log_start_offset for where, log in self.logs.items() if log.starts_within_segment}
        return self._guarded("checkpoint of log start offsets", self._log_start_offsets.collect(within))

    def _guarded(self, what: str, write: Write) -> Write:
        def guarded() -> None:
            with self.health.guard(what):
                write()

        return guarded

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return self._offsets_or_none(HIGH_WATERMARKS)

    def collect_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> Write:
        return self._guarded("checkpoint of high watermarks", self._high_watermarks.collect(offsets))

    # ------------------------------------------------------------------ the end

    def close(self, *, now_ms: int, broker_epoch: int = -1) -> None:
        """Stop cleanly, if the disk lets us; in any case let go of the directory."""
        try:
            if self._is_loaded and self.health.failure is None:
                self._close_logs(now_ms=now_ms)
                if not self.corrupt:
                    with self.health.guard("clean shutdown"):
                        write_clean_shutdown(self.path / CLEAN_SHUTDOWN, broker_epoch=broker_epoch)
        except StorageError:
            logger.exception("%s is not stopped cleanly", self.path)
        finally:
            self.abandon()

    def _close_logs(self, *, now_ms: int) -> None:
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.close(now_ms=now_ms)
        self.checkpoint()

    def abandon(self) -> None:
        """Let go of everything as it is, as a crash would."""
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.abandon()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def check_distinct(paths: Sequence[Path]) -> None:
    """ConfigError if two are the same directory, under whatever names. A lock would not tell: it is one of the process."""
    places: dict[tuple[int, int], Path] = {}
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue  # whoever opens it will see what is wrong with it
        place = found.st_dev, found.st_ino
        if place in places:
            raise ConfigError(f"{places[place]} and {path} are the same directory, which may be given only once")
        places[place] = path


def _take_lock(path: Path) -> int:
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        # Kafka locks by fcntl, which two processes respect only if both use it; flock would not see a Kafka.
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        with suppress(OSError):
            os.close(fd)
        raise ConfigError(f"{path} is in use by another broker; every broker needs its own log.dirs") from error
    return fd
