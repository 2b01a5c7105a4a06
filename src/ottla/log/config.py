"""What a topic's configuration says about its logs, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.records import Rules, TimestampType
from ottla.records.codecs import UNPACKED_BYTES_MAX
from ottla.records.validate import UNLIMITED_MS

_FOREVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One field for each setting, by Kafka's name with underscores."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False

    flush_messages: int = _FOREVER
    flush_ms: int = _FOREVER

    cleanup_policy: frozenset[str] = frozenset(("delete",))
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000

    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _FOREVER
    min_cleanable_dirty_ratio: float = 0.5

    compression_type: str = "producer"
    compression_level: int | None = None
    """The one of ``compression.gzip.level`` and the like that goes with the type; None for its default."""
    max_message_bytes: int = 1_048_588
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = UNLIMITED_MS
    message_timestamp_after_max_ms: int = UNLIMITED_MS
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX
    """Not one of Kafka's: how much a batch may unpack to."""

    producer_id_expiration_ms: int = 86_400_000

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """How old a segment gets; one that is compacted has to be sealed before its records are overdue."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    def rules(self) -> Rules:
        return Rules(
            compression_type=self.compression_type,
            timestamp_type=self.message_timestamp_type,
            before_max_ms=self.message_timestamp_before_max_ms,
            after_max_ms=self.message_timestamp_after_max_ms,
            compacted=self.compacts,
            max_message_bytes=self.max_message_bytes,
            unpacked_bytes_max=self.unpacked_bytes_max,
            compression_level=self.compression_level,
        )
