"""The append-only log on disk, in Kafka's files.

    LogDirectory       one disk: lock, checkpoints, clean stops, partitions
      └── Log          one partition: append, read, roll, flush, truncate, retention
            ├── loader       opens it; recovery after a crash
            ├── LogSegments  the row of its segments: which holds an offset, what is read from there
            │     └── Segment      one file of batches, with OffsetIndex, TimeIndex, TransactionIndex
            │           └── Found  what was there when it was opened, and is believed once it was looked at
            ├── ProducerState   idempotence and transactions (replay: out of snapshots and batches)
            └── LeaderEpochCache   which epoch wrote what
    checkpoints        the small text files
    files              moves on files, and what it means when one fails

Everything here blocks and knows no event loop. ``Log.append_as_*`` and ``Log.read`` are for the loop, ``Flush.sync``,
loading and deletion for a worker.
"""

from ottla.log.checkpoints import MetaProperties, TopicPartition
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory, check_distinct
from ottla.log.errors import LogError, OffsetOutOfRangeError, StorageError
from ottla.log.files import Health
from ottla.log.loader import Loading, Recovery, load_log
from ottla.log.log import Log
from ottla.log.outcomes import AppendInfo, Fetched, Flush
from ottla.log.segment import FileRange

__all__ = [
    "AppendInfo",
    "Fetched",
    "FileRange",
    "Flush",
    "Health",
    "Loading",
    "Log",
    "LogConfig",
    "LogDirectory",
    "LogError",
    "MetaProperties",
    "OffsetOutOfRangeError",
    "Recovery",
    "StorageError",
    "TopicPartition",
    "check_distinct",
    "load_log",
]
