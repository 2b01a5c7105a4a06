"""The options of a read or a write, by the names of Spark's Kafka connector, checked before anything is done.

What the connector refuses is refused; what it only needs for its consumers (``groupIdPrefix``, ``kafkaConsumer.pollTimeoutMs``, caches) is
taken and has no effect, as there is no consumer here. Names are compared without regard to case, as everywhere in Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.scan.cluster import EARLIEST, LATEST, TopicPartition
from ottla.scan.errors import OptionError
from ottla.scan.fetching import FETCH_BYTES
from ottla.scan.settings import Settings, parse_settings

KAFKA = "kafka."
REFUSED = (
    "kafka.auto.offset.reset",
    "kafka.key.serializer",
    "kafka.value.serializer",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)
STRATEGIES = ("subscribe", "subscribepattern", "assign")
READ_MODES = ("auto", "network", "files")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_NUMBERS = (
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "request.timeout.ms",
)
"""Of a consumer, without effect here; but what is no number is a mistake."""
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Start:
    """Where every partition starts or ends; the first of these that is given counts."""

    timestamp: int | None = None
    by_timestamp: Mapping[TopicPartition, int] | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    relative_records: int | None = None
    """So many before the end."""
    relative_ms: int | None = None
    """So long before now."""
    named: str = ""
    """earliest or latest, where nothing else is given."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    kafka: Mapping[str, str]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()
    start: Start = field(default_factory=Start)
    end: Start = field(default_factory=Start)
    no_match_is_latest: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_bytes_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    max_bytes_per_trigger: int | None = None
    commit_group: str | None = None
    read_mode: str = "auto"
    log_dirs: tuple[str, ...] = ()
    value_format: str | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)
    fetch_bytes: int = FETCH_BYTES
    columns: tuple[str, ...] = ()
    where: str | None = None
    push_filters: bool | None = None
    """None: if Spark is known to keep the conditions of queries apart."""
    dead_letter_topic: str | None = None

    @property
    def is_offline(self) -> bool:
        """Whether there is no cluster to ask, but files alone."""
        return "bootstrap.servers" not in self.kafka

    @property
    def settings(self) -> Settings:
        return parse_settings(self.kafka)

    @property
    def read_committed(self) -> bool:
        return self.kafka.get("isolation.level", "read_uncommitted") == "read_committed"


def parse_read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    options = {name.lower(): value for name, value in given.items()}
    # Files of brokers that do not run are enough for a read that ends.
    is_offline = options.get("readmode", "").lower() == "files" and bool(options.get("logdirs")) and not streaming
    kafka = kafka_options(options, needs_servers=not is_offline)
    _check_consumer(kafka)
    chosen = [name for name in STRATEGIES if name in options]
    if len(chosen) != 1:
        raise OptionError(
            "give exactly one of subscribe, subscribePattern and assign"
            + (f", not {' and '.join(chosen)}" if chosen else "")
        )
    topics = tuple(dict.fromkeys(topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()))
    if chosen == ["subscribe"] and not topics:
        raise OptionError("subscribe: no topic is named")
    pattern = options.get("subscribepattern")
    if pattern is not None:
        _regex(pattern)
    start = _start(options, streaming=streaming)
    end = Start(named="latest") if streaming else _end(options)
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy={strategy}: give error or latest")
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name.lower() in options:
                raise OptionError(f"{name}: a stream has no end")
    low, high = _count(options, "minOffsetsPerTrigger"), _count(options, "maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise OptionError(f"minOffsetsPerTrigger={low} is more than maxOffsetsPerTrigger={high}")
    mode = options.get("readmode", "auto").lower()
    if mode not in READ_MODES:
        raise OptionError(f"readMode={mode}: give one of {', '.join(READ_MODES)}")
    made = ReadOptions(
        kafka=kafka,
        topics=topics,
        pattern=pattern,
        assigned=_assigned(options.get("assign")),
        start=start,
        end=end,
        no_match_is_latest=strategy == "latest",
        fail_on_data_loss=flag(options, "failOnDataLoss", default=True),
        include_headers=flag(options, "includeHeaders", default=False),
        min_partitions=_count(options, "minPartitions"),
        max_records_per_partition=_count(options, "maxRecordsPerPartition"),
        max_bytes_per_partition=_size(options, "maxBytesPerPartition"),
        max_offsets_per_trigger=high,
        min_offsets_per_trigger=low,
        max_trigger_delay_ms=_duration(options, "maxTriggerDelay", "15m"),
        max_bytes_per_trigger=_size(options, "maxBytesPerTrigger"),
        commit_group=options.get("commitgroup") or None,
        read_mode=mode,
        log_dirs=tuple(path.strip() for path in options.get("logdirs", "").split(",") if path.strip()),
        value_format=options.get("valueformat") or None,
        format_options={
            name: value for name, value in options.items() if name.startswith("value") and name != "valueformat"
        },
        fetch_bytes=_size(options, "fetchBytes") or FETCH_BYTES,
        dead_letter_topic=options.get("deadlettertopic") or None,
        where=options.get("where") or None,
        push_filters=flag(options, "pushFilters", default=False) if "pushfilters" in options else None,
        columns=tuple(name.strip() for name in options.get("columns", "").split(",") if name.strip()),
    )
    if made.dead_letter_topic is not None:
        _check_letters(made, made.dead_letter_topic)
    return made


def _check_consumer(kafka: Mapping[str, str]) -> None:
    level = kafka.get("isolation.level", ISOLATION_LEVELS[0])
    if level not in ISOLATION_LEVELS:
        raise OptionError(f"kafka.isolation.level={level}: give {' or '.join(ISOLATION_LEVELS)}")
    for name in _NUMBERS:
        if name in kafka and not kafka[name].strip().isdigit():
            raise OptionError(f"kafka.{name}={kafka[name]}: give a number")


def _check_letters(options: ReadOptions, topic: str) -> None:
    read = topic in options.topics or topic in (place.topic for place in options.assigned)
    if read or (options.pattern is not None and matches(options.pattern, topic)):
        raise OptionError(f"deadLetterTopic={topic}: it is read, too, and its letters would come back for ever")
    if options.value_format is None:
        raise OptionError(f"deadLetterTopic={topic}: without valueFormat, no value is malformed")
    if options.is_offline:
        raise OptionError(f"deadLetterTopic={topic}: kafka.bootstrap.servers is missing, and letters go to brokers")


def kafka_options(options: Mapping[str, str], *, needs_servers: bool = True) -> dict[str, str]:
    """What stands behind ``kafka.``, for the client."""
    for name in REFUSED:
        if name in options:
            raise OptionError(f"{name} is not supported: offsets, keys and values are this source's own business")
    kafka = {name[len(KAFKA) :]: value for name, value in options.items() if name.startswith(KAFKA)}
    if needs_servers and "bootstrap.servers" not in kafka:
        raise OptionError("kafka.bootstrap.servers is missing: give the brokers to start from, as HOST:PORT,...")
    return kafka


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name}={text}: give true or false")
    return text == "true"


def matches(pattern: str, topic: str) -> bool:
    return _regex(pattern).fullmatch(topic) is not None


def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OptionError(f"subscribePattern={pattern}: {error}") from None


def _start(options: Mapping[str, str], *, streaming: bool) -> Start:
    text = options.get("startingoffsets", "latest" if streaming else "earliest").strip()
    made = _place(options, "starting", text)
    if made.named == "latest" and not streaming:
        raise OptionError("startingOffsets=latest: a batch read would be empty; only a stream may start there")
    if made.offsets and LATEST in made.offsets.values() and not streaming:
        raise OptionError("startingOffsets: -1 stands for the latest offset; only a stream may start there")
    return made


def _end(options: Mapping[str, str]) -> Start:
    text = options.get("endingoffsets", "latest").strip()
    made = _place(options, "ending", text)
    if made.named == "earliest":
        raise OptionError("endingOffsets=earliest: nothing lies before it")
    if made.offsets and EARLIEST in made.offsets.values():
        raise OptionError("endingOffsets: -2 stands for the earliest offset, before which nothing lies")
    return made


def _place(options: Mapping[str, str], which: str, text: str) -> Start:
    timestamp = options.get(f"{which}timestamp")
    by_timestamp = options.get(f"{which}offsetsbytimestamp")
    if timestamp is not None:
        if not timestamp.strip().isdigit():
            raise OptionError(f"{which}Timestamp={timestamp}: give milliseconds since 1970")
        return Start(timestamp=int(timestamp))
    if by_timestamp is not None:
        name = f"{which}OffsetsByTimestamp"
        times = parse_offsets(name, by_timestamp)
        if min(times.values(), default=0) < 0:
            raise OptionError(f"{name}={by_timestamp}: give milliseconds since 1970")
        return Start(by_timestamp=times)
    if text.lower() in ("earliest", "latest"):
        return Start(named=text.lower())
    if text.startswith("-") and text[1:].isdigit():
        return Start(relative_records=int(text[1:]))
    if text.startswith("-") and (length := _DURATION.fullmatch(text[1:])):
        return Start(relative_ms=int(length[1]) * _UNITS_MS[length[2]])
    offsets = parse_offsets(f"{which}Offsets", text)
    if min(offsets.values(), default=0) < EARLIEST:
        raise OptionError(
            f"{which}Offsets={text}: no offset is less than -2, which stands for the earliest, and -1 for the latest"
        )
    return Start(offsets=offsets)


def parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """``{"topic": {"0": 23, "1": -2}}``."""
    try:
        return {
            TopicPartition(topic, int(partition)): _whole(offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise OptionError(
            f'{name}={text}: give earliest, latest, -1000 or -10m before the end, or JSON like {{"topic": {{"0": 23}}}}'
        ) from None


def _assigned(text: str | None) -> tuple[TopicPartition, ...]:
    if text is None:
        return ()
    try:
        named = [
            TopicPartition(topic, _whole(partition))
            for topic, partitions in json.loads(text).items()
            for partition in partitions
        ]
        return tuple(dict.fromkeys(named))
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f'assign={text}: give JSON like {{"topic": [0, 1]}}') from None


def _whole(number: object) -> int:
    if type(number) is not int:
        raise TypeError(f"{number!r} is no whole number")
    return number


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise OptionError(f"{name}={text}: give a positive number")
    return int(text)


def _size(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) < 1:
        raise OptionError(f"{name}={text}: give bytes, or 64k, 16m, 1g")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]


def _duration(options: Mapping[str, str], name: str, default: str) -> int:
    text = options.get(name.lower(), default).strip().lower()
    if text.isdigit():
        return int(text)
    match = _DURATION.fullmatch(text.replace("min", "m"))
    if match is None:
        raise OptionError(f"{name}={text}: give milliseconds, or 30s, 15m, 1h")
    return int(match[1]) * _UNITS_MS[match[2]]
