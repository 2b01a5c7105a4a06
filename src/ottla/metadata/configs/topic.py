"""Every setting of a topic, and where its default comes from on a broker.

A topic that has no value of its own takes that of the first synonym the broker has a value for, times the factor.
"""

from __future__ import annotations

from typing import Final

from ottla.metadata.configs.definition import LONG_MAX, ConfigKey, ConfigType, Shape, Synonym, key
from ottla.metadata.configs.releases import RELEASES

# fmt: off
_KEYS: Final = (
    key("segment.bytes", ConfigType.INT, 1_073_741_824, at_least=14, broker=(Synonym("log.segment.bytes"),), doc="Size at which a segment is closed and a new one begun."),
    key("segment.ms", ConfigType.LONG, 604_800_000, at_least=1, broker=(Synonym("log.roll.ms"), Synonym("log.roll.hours", 3_600_000)), doc="Age at which a segment is closed even if it is not full."),
    key("segment.jitter.ms", ConfigType.LONG, 0, at_least=0, broker=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", 3_600_000)), doc="Up to so much, drawn at random, is taken off segment.ms, so that segments do not all roll at once."),
    key("segment.index.bytes", ConfigType.INT, 10_485_760, at_least=4, broker=(Synonym("log.index.size.max.bytes"),), doc="Size of the index that maps offsets to positions."),
    key("flush.messages", ConfigType.LONG, LONG_MAX, at_least=1, broker=(Synonym("log.flush.interval.messages"),), doc="Messages after which the log is synced to disk; the default leaves that to the operating system."),
    key("flush.ms", ConfigType.LONG, LONG_MAX, at_least=0, broker=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")), doc="Time after which the log is synced to disk; the default leaves that to the operating system."),
    key("retention.bytes", ConfigType.LONG, -1, broker=(Synonym("log.retention.bytes"),), doc="Size of a partition beyond which its oldest segments are deleted; -1 for no limit."),
    key("retention.ms", ConfigType.LONG, 604_800_000, at_least=-1, broker=(Synonym("log.retention.ms"), Synonym("log.retention.minutes", 60_000), Synonym("log.retention.hours", 3_600_000)), doc="Age beyond which segments are deleted; -1 for no limit."),
    key("max.message.bytes", ConfigType.INT, 1_048_588, at_least=0, broker=(Synonym("message.max.bytes"),), doc="Largest record batch, as it is after compression."),
    key("index.interval.bytes", ConfigType.INT, 4096, at_least=0, broker=(Synonym("log.index.interval.bytes"),), doc="Bytes between two entries of the index."),
    key("delete.retention.ms", ConfigType.LONG, 86_400_000, at_least=0, broker=(Synonym("log.cleaner.delete.retention.ms"),), doc="How long the marks of deleted keys stay in a compacted topic."),
    key("min.compaction.lag.ms", ConfigType.LONG, 0, at_least=0, broker=(Synonym("log.cleaner.min.compaction.lag.ms"),), doc="Age below which a record is not compacted."),
    key("max.compaction.lag.ms", ConfigType.LONG, LONG_MAX, at_least=1, broker=(Synonym("log.cleaner.max.compaction.lag.ms"),), doc="Age beyond which a record becomes ready for compaction whatever the share of dirt."),
    key("file.delete.delay.ms", ConfigType.LONG, 60_000, at_least=0, broker=(Synonym("log.segment.delete.delay.ms"),), doc="Time between taking a file out of use and deleting it."),
    key("min.cleanable.dirty.ratio", ConfigType.DOUBLE, 0.5, at_least=0, at_most=1, broker=(Synonym("log.cleaner.min.cleanable.ratio"),), doc="Share of the log that has to be uncompacted before it is compacted."),
    key("cleanup.policy", ConfigType.LIST, ("delete",), choices=("compact", "delete"), broker=(Synonym("log.cleanup.policy"),), doc="What happens to old segments: they are deleted, or compacted to the last value of every key, or both."),
    key("unclean.leader.election.enable", ConfigType.BOOLEAN, False, broker=(Synonym("unclean.leader.election.enable"),), doc="Whether a replica out of sync may lead if no other is left, at the price of records."),
    key("min.insync.replicas", ConfigType.INT, 1, at_least=1, broker=(Synonym("min.insync.replicas"),), doc="Replicas that must be in sync for a produce request with acks=all."),
    key("compression.type", ConfigType.STRING, "producer", choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), broker=(Synonym("compression.type"),), doc="How batches are compressed on disk; `producer` keeps what the producer chose."),
    key("compression.gzip.level", ConfigType.INT, -1, at_least=1, at_most=9, or_else=-1, broker=(Synonym("compression.gzip.level"),), doc="Level of gzip, if that is what compression.type asks for."),
    key("compression.lz4.level", ConfigType.INT, 9, at_least=1, at_most=17, broker=(Synonym("compression.lz4.level"),), doc="Level of lz4, if that is what compression.type asks for."),
    key("compression.zstd.level", ConfigType.INT, 3, at_least=-131_072, at_most=22, broker=(Synonym("compression.zstd.level"),), doc="Level of zstd, if that is what compression.type asks for."),
    key("preallocate", ConfigType.BOOLEAN, False, broker=(Synonym("log.preallocate"),), doc="Whether a new segment takes its space on disk at once."),
    key("message.format.version", ConfigType.STRING, "3.0-IV1", shape=Shape.RELEASE, choices=RELEASES, broker=(Synonym("log.message.format.version"),), doc="Kept for old configurations; batches are written in format 2."),
    key("message.timestamp.type", ConfigType.STRING, "CreateTime", choices=("CreateTime", "LogAppendTime"), broker=(Synonym("log.message.timestamp.type"),), doc="Whether a record carries the time of its creation or that of its arrival."),
    key("message.timestamp.difference.max.ms", ConfigType.LONG, LONG_MAX, at_least=0, broker=(Synonym("log.message.timestamp.difference.max.ms"),), doc="Kept for old configurations: how far a record's time may be from the broker's."),
    key("message.timestamp.before.max.ms", ConfigType.LONG, LONG_MAX, at_least=0, broker=(Synonym("log.message.timestamp.before.max.ms"),), doc="How far a record's time may lie before the broker's."),
    key("message.timestamp.after.max.ms", ConfigType.LONG, LONG_MAX, at_least=0, broker=(Synonym("log.message.timestamp.after.max.ms"),), doc="How far a record's time may lie after the broker's."),
    key("leader.replication.throttled.replicas", ConfigType.LIST, (), shape=Shape.THROTTLED_REPLICAS, doc="Replicas whose leaders send at the throttled rate, as partition:broker, or `*` for all."),
    key("follower.replication.throttled.replicas", ConfigType.LIST, (), shape=Shape.THROTTLED_REPLICAS, doc="Replicas that fetch at the throttled rate, as partition:broker, or `*` for all."),
    key("message.downconversion.enable", ConfigType.BOOLEAN, True, broker=(Synonym("log.message.downconversion.enable"),), doc="Whether batches are converted for consumers that know only older formats."),
    key("remote.storage.enable", ConfigType.BOOLEAN, False, doc="Whether segments are copied to tiered storage."),
    key("local.retention.ms", ConfigType.LONG, -2, at_least=-2, broker=(Synonym("log.local.retention.ms"),), doc="Age beyond which segments that were copied are deleted here; -2 for retention.ms."),
    key("local.retention.bytes", ConfigType.LONG, -2, at_least=-2, broker=(Synonym("log.local.retention.bytes"),), doc="Size beyond which segments that were copied are deleted here; -2 for retention.bytes."),
    key("remote.log.copy.disable", ConfigType.BOOLEAN, False, doc="Whether no more segments are copied to tiered storage."),
    key("remote.log.delete.on.disable", ConfigType.BOOLEAN, False, doc="Whether what was copied is deleted when tiered storage is switched off."),
)
# fmt: on

TOPIC_CONFIGS: Final[dict[str, ConfigKey]] = {declared.name: declared for declared in _KEYS}
