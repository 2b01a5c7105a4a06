"""Logs that come many at a time: made by whatever thread has time for it, and on disk together.

    LogDirectory.begin_creation     on the loop: what is wanted is noted
    Creation.make                   in any thread: folders and files, and in the end one sync for all of them, step by step
    LogDirectory.finish_creation    on the loop: the logs are there

A disk that is busy lets whoever makes a file wait for what others sync, so this is nothing for a thread that serves clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from ottla.log.checkpoints import TopicPartition, encode_topic_id
from ottla.log.config import LogConfig
from ottla.log.files import Health, fsync_directory, write_all_whole
from ottla.log.loader import Loading, load_log
from ottla.log.log import Log

PARTITION_METADATA: Final = "partition.metadata"


class NewLog(NamedTuple):
    """How a log is to be made; a topic of old has no id."""

    config: LogConfig
    topic_id: UUID | None


class Creation:
    """New logs in one log directory. ``ending`` is what their folders have behind the names of the partitions."""

    def __init__(
        self,
        root: Path,
        health: Health,
        wanted: Mapping[TopicPartition, NewLog],
        *,
        now_ms: int,
        write_checkpoints: Callable[[], None],
        ending: str = "",
    ) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self._root = root
        self._health = health
        self._wanted = wanted
        self._now_ms = now_ms
        self._write_checkpoints = write_checkpoints
        self._ending = ending

    def make(self) -> None:
        """All of them, or StorageError: then the directory is offline."""
        with self._health.guard("creation of logs"):
            for topic_partition, new in self._wanted.items():
                folder = self._folder(topic_partition)
                folder.mkdir()
                # There is nothing to recover yet.
                loading = Loading(folder, topic_partition, new.config, self._health, clean=True)
                log, _ = load_log(loading, now_ms=self._now_ms, write_checkpoints=self._write_checkpoints)
                self.logs[topic_partition] = log
            write_all_whole(
                {
                    self._folder(topic_partition) / PARTITION_METADATA: encode_topic_id(new.topic_id)
                    for topic_partition, new in self._wanted.items()
                    if new.topic_id is not None
                }
            )
            fsync_directory(self._root)

    def _folder(self, topic_partition: TopicPartition) -> Path:
        return self._root / f"{topic_partition}{self._ending}"
