"""A broker's disk as a model: logs that are lists of records, of which the last may not be on disk yet.

``ModelLog`` stands for ``ottla.log.Log``, and ``ModelDirectory`` for ``LogDirectory``, as far as ``ottla.replica`` uses them.
Epochs are the product's own, without their file. What a process that is killed leaves behind is everything; a power cut
leaves what was synced and some of the rest. High watermarks come back as they were last checkpointed. A disk that fails takes
nothing more and keeps what it has until its broker's next life, which finds it mended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Protocol, cast
from uuid import UUID

from ottla.log import AppendInfo, Fetched, FileRange, Health, LogConfig, OffsetOutOfRangeError, StorageError
from ottla.log import TopicPartition as LogPartition
from ottla.log.creation import NewLog
from ottla.log.epochs import EpochEndOffset, EpochEntry, LeaderEpochCache

_VALUE = Struct(">q")
_REPLICATED = Struct(">qqq")
_CONFIG = LogConfig()


class Kept(NamedTuple):
    """One record, as it is in a log: its offset is its place."""

    epoch: int
    value: int


class Witness(Protocol):
    """Hears of everything that happens to a log, once it has."""

    def changed(self, log: ModelLog) -> None: ...

    def led(self, log: ModelLog, epoch: int) -> None:
        """It is about to be, and will only grow from now on."""


def encode(value: int) -> bytes:
    """What a producer sends."""
    return _VALUE.pack(value)


def decode(data: bytes) -> list[tuple[int, Kept]]:
    """What a fetch brings: records with their offsets."""
    return [(offset, Kept(epoch, value)) for offset, epoch, value in _REPLICATED.iter_unpack(data)]


class _Range:
    """Some records, in the place of a range of a file."""

    def __init__(self, data: bytes) -> None:
        self.length = len(data)
        self._data = data

    def read(self) -> bytes:
        return self._data


class _Epochs(LeaderEpochCache):
    """The product's, without a file."""

    def __init__(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        self.is_ahead = False
        self.latest = entries[-1].epoch if entries else -1

    def write(self) -> None:
        self.is_ahead = False

    def _replace(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        self.is_ahead = False
        self.latest = entries[-1].epoch if entries else -1


class ModelLog:
    """See the module. Nothing is ever deleted from the front, so that offsets are places in the list."""

    log_start_offset = 0
    config = _CONFIG
    generation = 0

    def __init__(self, where: LogPartition, topic_id: UUID | None, witness: Witness, records: list[Kept]) -> None:
        self.where = where
        self.topic_id = topic_id
        self.records = records
        self.synced = len(records)
        self.high_watermark = 0
        self.bytes_out = self.replicated_bytes_out = 0
        self._witness: Witness | None = witness
        entries: list[EpochEntry] = []
        for offset, record in enumerate(records):
            if not entries or record.epoch > entries[-1].epoch:
                entries.append(EpochEntry(record.epoch, offset))
        self.epochs = _Epochs(entries)

    def abandon(self) -> None:
        """Its process is gone: whatever is still done to this object happens nowhere."""
        self._witness = None

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def configure(self, config: LogConfig) -> None:
        assert config == self.config

    def append_as_leader(
        self, data: bytes, *, leader_epoch: int, now_ms: int, origin: object, later: bool = False
    ) -> AppendInfo:
        del now_ms, origin
        offset = self.log_end_offset
        self._append(offset, Kept(leader_epoch, *_VALUE.unpack(data)))
        if not later:
            self._tell()
        return AppendInfo(offset, offset, -1, 0)

    def finish_append(self, *, now_ms: int) -> None:
        del now_ms
        self._tell()

    def append_as_follower(self, data: bytes, *, now_ms: int) -> None:
        del now_ms
        for offset, record in decode(data):
            self._append(offset, record)
        self._tell()

    def _append(self, offset: int, record: Kept) -> None:
        assert offset == len(self.records), f"{self.where}: {offset} follows {len(self.records)}"
        if record.epoch > self.epochs.latest:
            self.epochs.assign(record.epoch, offset)
        self.epochs.write()
        self.records.append(record)

    def read(self, offset: int, max_bytes: int, *, upper: int | None = None, min_one: bool = True) -> Fetched:
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(f"{self.where}: {offset} is not between 0 and {self.log_end_offset}")
        end = self.log_end_offset if upper is None else upper
        count = min(max(max_bytes // _REPLICATED.size, int(min_one)), end - offset)
        if count <= 0:
            return Fetched(None, end)
        found = enumerate(self.records[offset : offset + count], offset)
        data = b"".join(_REPLICATED.pack(at, *record) for at, record in found)
        return Fetched(cast("FileRange", _Range(data)), end)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def assign_epoch(self, leader_epoch: int) -> None:
        if self._witness is not None:
            self._witness.led(self, leader_epoch)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, self.log_end_offset, written=False)

    def update_high_watermark(self, offset: int) -> int:
        self.high_watermark = max(0, min(offset, self.log_end_offset))
        self._tell()
        return self.high_watermark

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        del now_ms
        self.epochs.truncate_from_end(offset)
        if offset >= self.log_end_offset:
            return False
        del self.records[offset:]
        self.synced = min(self.synced, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self._tell()
        return True

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        raise AssertionError(f"{self.where}: no log begins behind 0, and this one is to begin at {offset}, {now_ms}")

    def flush(self) -> None:
        self.synced = self.log_end_offset

    def _tell(self) -> None:
        if self._witness is not None:
            self._witness.changed(self)


class Left(NamedTuple):
    """What one life of a broker leaves to the next."""

    logs: dict[LogPartition, tuple[UUID | None, list[Kept]]] = {}  # noqa: RUF012  # never changed
    high_watermarks: dict[LogPartition, int] = {}  # noqa: RUF012
    is_clean: bool = False


class _Creation(NamedTuple):
    """Logs that are made elsewhere, and are there at once."""

    directory: ModelDirectory
    logs: dict[LogPartition, ModelLog]

    def make(self) -> None:
        self.directory.health.check()


class ModelDirectory:
    """The log directory of one life of a broker."""

    path = Path("model")

    def __init__(self, left: Left, witness: Witness) -> None:
        self.health = Health(self.path)
        self.was_clean = left.is_clean
        self.has_deleted = False
        self.future_logs: dict[LogPartition, ModelLog] = {}
        self.corrupt: dict[LogPartition, Exception] = {}
        self._witness = witness
        self._high_watermarks = dict(left.high_watermarks)
        self.logs = {
            where: ModelLog(where, topic_id, witness, list(records)) for where, (topic_id, records) in left.logs.items()
        }

    def leave(self, kept: Mapping[LogPartition, int], *, is_clean: bool = False) -> Left:
        """This life is over. ``kept`` says of how many records something is left, where it is not all."""
        for log in self.logs.values():
            log.abandon()
        logs = {
            where: (log.topic_id, log.records[: kept.get(where, len(log.records))]) for where, log in self.logs.items()
        }
        return Left(logs, dict(self._high_watermarks), is_clean)

    def fail(self) -> None:
        self.health.failure = StorageError("the disk is full")

    def partitions_on_disk(self) -> set[LogPartition]:
        return set(self.logs)

    def topic_id(self, where: LogPartition) -> UUID | None:
        return self.logs[where].topic_id

    def create(self, where: LogPartition, config: LogConfig, *, topic_id: UUID | None, now_ms: int) -> ModelLog:
        del config, now_ms
        self.health.check()
        self.logs[where] = ModelLog(where, topic_id, self._witness, [])
        return self.logs[where]

    def begin_creation(self, wanted: Mapping[LogPartition, NewLog], *, now_ms: int) -> _Creation:
        del now_ms
        return _Creation(
            self, {where: ModelLog(where, new.topic_id, self._witness, []) for where, new in wanted.items()}
        )

    def finish_creation(self, creation: _Creation) -> None:
        self.logs.update(creation.logs)

    def delete(self, where: LogPartition, *, now_ms: int, settled: bool = True) -> None:
        del now_ms
        self.health.check()
        self.logs.pop(where).abandon()
        self.has_deleted = not settled

    def set_aside(self, where: LogPartition) -> None:
        """Nobody looks for what was another topic's."""
        self.health.check()
        self.logs.pop(where).abandon()

    def sync_deletions(self) -> None:
        """A name that is gone is gone at once."""

    def settle_deletions(self) -> None:
        self.has_deleted = False

    def read_high_watermarks(self) -> dict[LogPartition, int]:
        return dict(self._high_watermarks)

    def collect_high_watermarks(self, offsets: Mapping[LogPartition, int]) -> Callable[[], None]:
        collected = dict(offsets)

        def write() -> None:
            self.health.check()
            self._high_watermarks = collected

        return write

    def checkpoints(self) -> tuple[()]:
        """How far logs are on disk is known to the logs themselves."""
        return ()
