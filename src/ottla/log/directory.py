"""A log directory: the partitions on one disk, locked for one broker, and the checkpoints that they share.

    log.dirs/
      .lock                               held as long as a broker uses the directory
      .kafka_cleanshutdown                there between a clean stop and the next start
      meta.properties                     which broker and cluster it belongs to
      recovery-point-offset-checkpoint    up to where each log is known to be on disk
      log-start-offset-checkpoint         for logs that start within their first segment
      replication-offset-checkpoint       high watermarks
      TOPIC-PARTITION/                    one log
      TOPIC-PARTITION.ID-delete/          one that is being deleted
      TOPIC-PARTITION.ID-future/          one that is being moved here from another directory

Loading takes the clean-shutdown mark away before it opens anything, so a crash while loading counts as one. A partition
whose files are damaged where no crash explains it stays closed and is listed in ``corrupt``; the others load. No clean
mark is written over such a directory, or its next start would believe unread what this one refused.

The first ``OSError`` takes the directory offline (``files.Health``); other directories of the broker go on.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from ottla.base.errors import ConfigError, CorruptionError
from ottla.log.checkpoints import (
    MetaProperties,
    TopicPartition,
    read_clean_shutdown,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
    write_topic_id,
)
from ottla.log.config import LogConfig
from ottla.log.errors import StorageError
from ottla.log.files import FILE_MODE, Health, fsync_directory, remove_if_there
from ottla.log.loader import Loading, Recovery, load_log
from ottla.log.log import Log

logger = logging.getLogger(__name__)

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
_PARTITION = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_MARKED = re.compile(r"(\S+)-(\d+)\.(\w{32})(-delete|-future)")

ConfigFor = Callable[[str], LogConfig]
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
        self._doomed: list[tuple[int, Path]] = []
        self._corrupt_recovery_points: dict[TopicPartition, int] = {}
        with self.health.guard("opening"):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _take_lock(path)

    # ------------------------------------------------------------------ whose it is

    @property
    def meta(self) -> MetaProperties | None:
        return read_meta_properties(self.path / META_PROPERTIES)

    def claim(self, meta: MetaProperties) -> None:
        """Make sure that the directory belongs to this broker, and say so in it if it belongs to none."""
        found = self.meta
        if found is None:
            with self.health.guard("writing meta.properties"):
                write_meta_properties(self.path / META_PROPERTIES, meta)
        elif found != meta:
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
            folders = list(self._folders(now_ms=now_ms))
        for number, (topic_partition, folder, is_future) in enumerate(folders, start=1):
            loading = Loading(
                folder,
                topic_partition,
                config_for(topic_partition.topic),
                self.health,
                log_start_offset=start_offsets.get(topic_partition, 0),
                recovery_point=recovery_points.get(topic_partition, 0),
                clean=self.was_clean,
            )
            self._load(loading, is_future=is_future, now_ms=now_ms)
            if progress is not None:
                progress(number, len(folders))
        self.checkpoint()

    def _load(self, loading: Loading, *, is_future: bool, now_ms: int) -> None:
        topic_partition = loading.topic_partition
        try:
            log, recovery = load_log(loading, now_ms=now_ms, lower_recovery_point=self.checkpoint_recovery_points)
        except CorruptionError as error:
            logger.error("%s stays closed: %s", topic_partition, error)  # noqa: TRY400 - what happened is in the message
            self.corrupt[topic_partition] = error
            self._corrupt_recovery_points[topic_partition] = loading.recovery_point
            return
        (self.future_logs if is_future else self.logs)[topic_partition] = log
        self.recoveries[topic_partition] = recovery

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
            else:
                logger.warning("%s is no partition; it is left alone", entry)

    # ------------------------------------------------------------------ create and delete

    def create(self, topic_partition: TopicPartition, config: LogConfig, *, topic_id: UUID | None, now_ms: int) -> Log:
        """The log of a partition that is new here."""
        assert topic_partition not in self.logs, f"{topic_partition} is here already"
        folder = self.path / str(topic_partition)
        with self.health.guard(f"creation of {topic_partition}"):
            folder.mkdir()
            if topic_id is not None:
                write_topic_id(folder / PARTITION_METADATA, topic_id)
            fsync_directory(self.path)
        loading = Loading(folder, topic_partition, config, self.health, clean=False)
        log, _ = load_log(loading, now_ms=now_ms, lower_recovery_point=self.checkpoint_recovery_points)
        self.logs[topic_partition] = log
        return log

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        return read_topic_id(self.path / str(topic_partition) / PARTITION_METADATA)

    def delete(self, topic_partition: TopicPartition, *, now_ms: int) -> None:
        """Take a log out at once; its files go after ``file.delete.delay.ms``."""
        log = self.logs.pop(topic_partition)
        with self.health.guard(f"deletion of {topic_partition}"):
            target = self.path / f"{topic_partition}.{uuid4().hex}{DELETE_SUFFIX}"
            log.directory.replace(target)
            fsync_directory(self.path)
            log.abandon()
            log.moved(target)
            self._doomed.append((now_ms + log.config.file_delete_delay_ms, target))
        # Or a partition of the same name would be held to this one's recovery point.
        self.checkpoint()

    def delete_marked(self, *, now_ms: int) -> None:
        """Remove what was deleted long enough ago: files of segments, and folders of partitions."""
        for log in self.logs.values():
            log.delete_marked(now_ms=now_ms)
        due = [folder for due_ms, folder in self._doomed if due_ms <= now_ms]
        self._doomed = [doomed for doomed in self._doomed if doomed[0] > now_ms]
        with self.health.guard("deletion"):
            for folder in due:
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()

    # ------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> None:
        self.checkpoint_recovery_points()
        with self.health.guard("checkpoint of log start offsets"):
            within = {
                topic_partition: log.log_start_offset
                for topic_partition, log in self.logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            }
            write_offsets(self.path / LOG_START_OFFSETS, within)

    def checkpoint_recovery_points(self) -> None:
        with self.health.guard("checkpoint of recovery points"):
            points = {topic_partition: log.recovery_point for topic_partition, log in self.logs.items()}
            write_offsets(self.path / RECOVERY_POINTS, {**points, **self._corrupt_recovery_points})

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return self._offsets_or_none(HIGH_WATERMARKS)

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self.health.guard("checkpoint of high watermarks"):
            write_offsets(self.path / HIGH_WATERMARKS, offsets)

    # ------------------------------------------------------------------ the end

    def close(self, *, now_ms: int, broker_epoch: int = -1) -> None:
        """Stop cleanly, if the disk lets us; in any case let go of the directory."""
        try:
            if self.health.failure is None:
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
