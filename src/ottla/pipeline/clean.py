"""From what arrived to what can be counted, as functions of data frames, which may be streams.

    parse ─► normalize ─► judge ─┬─► dead_letters     what cannot be used, as it came, with the reason: rows of a table,
                                 ├─► letters          and records for a topic
                                 └─► accepted ─► deduplicate ─► mask

The reason is one word: ``malformed`` (no JSON object with fields of the right types), ``id``, ``kind``, ``time``, ``url``, ``field`` (one that
its kind needs is not there), ``future``, ``late``. The first that holds is told.

An event is late by the timestamp of its record, not by what else was read before it: so it does not depend on how a stream is
cut into batches, and history gives the same result as the stream did. It also bounds where a copy of an event can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from ottla.pipeline import masks, urls
from ottla.pipeline.events import CARRIED, CORRUPT, FIELDS, ORIGIN, REQUIRED, ddl

# There is a maker of telephones named Cubot.
ROBOTS = r"(?i)(?<!cu)bot\b|crawl|spider|slurp|headless|^curl|^wget|python-requests|scrapy"
_ID_CHARS = 128
_MILLIS = r"^\d{12,14}$"
_SECONDS = r"^\d{9,11}(\.\d+)?$"
_DATE = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"


@dataclass(frozen=True, slots=True)
class Rules:
    """What an event may be."""

    late: timedelta = timedelta(hours=2)
    """How long after its time it may arrive."""
    future: timedelta = timedelta(minutes=5)
    """How far ahead a sender's clock may be."""
    robots: str = ROBOTS
    """A regular expression of agents that are nobody."""
    masks: Mapping[str, str] = field(default_factory=lambda: dict(masks.DEFAULT))
    salt: str = ""


def parse(frame: DataFrame) -> DataFrame:
    """The fields of events, from Ottla's source (``SOURCE_SCHEMA``) or from the raw columns of any Kafka source.

    Ottla's source is strict about types. What it refuses is looked at again, leniently: a number will do for a text.
    """
    if CORRUPT not in frame.columns:
        carried = [column for column in CARRIED if column.removeprefix("_") in frame.columns]
        origin = [F.col(column.removeprefix("_")).alias(column) for column in (*ORIGIN, *carried)]
        nothing = [F.lit(None).cast(kind).alias(name) for name, kind in FIELDS.items()]
        frame = frame.select(*nothing, *origin, F.col("value").alias(CORRUPT))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_bad"}
    again = F.from_json(F.col(CORRUPT).cast("string"), ddl({**FIELDS, "_bad": "STRING"}), options)
    looked = frame.withColumn("_again", again)
    malformed = F.col(CORRUPT).isNotNull() & (F.col("_again").isNull() | F.col("_again._bad").isNotNull())
    fields = [F.coalesce(F.col(name), F.col("_again").getField(name)).alias(name) for name in FIELDS]
    kept = [*ORIGIN, *(column for column in CARRIED if column in frame.columns)]
    return looked.select(*fields, *kept, (malformed | F.col("_value").isNull()).alias("malformed"))


def normalize(frame: DataFrame) -> DataFrame:
    """Times as ``at``, addresses in one spelling, ``page`` for the path alone, and words without what does not matter."""
    time = F.trim("time")
    at = (
        F.when(time.rlike(_MILLIS), F.timestamp_millis(time.try_cast("long")))
        .when(time.rlike(_SECONDS), F.timestamp_seconds(time.try_cast("double")))
        .when(time.rlike(_DATE), F.try_to_timestamp(time))
    )
    words = F.lower(F.trim(F.regexp_replace("query", r"\s+", " ")))
    return frame.withColumns(
        {
            "at": at,
            "id": F.trim("id"),
            "page": urls.page("url"),
            "url": urls.normalized("url"),
            "query": words,
            "level": F.upper("level"),
        }
    )


def judge(frame: DataFrame, rules: Rules) -> DataFrame:
    """With a column ``reason``, which is null for what can be used, and ``robot``."""
    missing = F.lit(False)
    for kind, names in REQUIRED.items():
        there = F.lit(True)
        for name in names:
            there &= F.col(name).isNotNull() & (~F.isnan(name) if name == "value" else F.length(name) > 0)
        missing |= (F.col("kind") == kind) & ~there
    arrived = F.col("_timestamp").cast("double")
    at = F.col("at").cast("double")
    reason = (
        F.when(F.col("malformed"), "malformed")
        .when(F.col("id").isNull() | ~F.length("id").between(1, _ID_CHARS), "id")
        .when(F.col("kind").isNull() | ~F.col("kind").isin(*REQUIRED), "kind")
        .when(F.col("at").isNull(), "time")
        .when(missing, "field")
        .when(F.col("url").isNotNull() & F.col("page").isNull(), "url")
        .when(at > arrived + rules.future.total_seconds(), "future")
        .when(at < arrived - rules.late.total_seconds(), "late")
    )
    return frame.withColumn("reason", reason).withColumn("robot", is_robot(F.col("agent"), rules))


def is_robot(agent: Column, rules: Rules) -> Column:
    return F.coalesce(agent.rlike(rules.robots), F.lit(False))


def dead_letters(judged: DataFrame) -> DataFrame:
    """What cannot be used, as it came, with where it was and the reason."""
    return judged.where(F.col("reason").isNotNull()).select(
        "reason",
        F.col("_timestamp").alias("at"),
        F.col("_topic").alias("topic"),
        F.col("_partition").alias("partition"),
        F.col("_offset").alias("offset"),
        F.col("_value").alias("value"),
    )


def letters(judged: DataFrame) -> DataFrame:
    """What cannot be used, as records to be sent on: as they came, with headers behind their own that say where they were, and the reason."""
    told = {
        "topic": F.col("_topic"),
        "partition": F.col("_partition"),
        "offset": F.col("_offset"),
        "timestamp": F.unix_millis("_timestamp"),
        "reason": F.col("reason"),
    }
    added = [
        F.struct(F.lit(name).alias("key"), column.cast("string").cast("binary").alias("value"))
        for name, column in told.items()
    ]
    kinds = {name: F.col(name) if name in judged.columns else F.lit(None).cast(kind) for name, kind in CARRIED.items()}
    own = F.coalesce(kinds["_headers"], F.array().cast(CARRIED["_headers"]))
    return judged.where(F.col("reason").isNotNull()).select(
        kinds["_key"].alias("key"),
        F.col("_value").alias("value"),
        F.concat(own, F.array(*added).cast(CARRIED["_headers"])).alias("headers"),
    )


def accepted(judged: DataFrame) -> DataFrame:
    """What people and services did."""
    kept = [name for name in FIELDS if name not in ("time", "value")]
    return judged.where(F.col("reason").isNull() & ~F.col("robot")).select("at", "page", *kept, "value")


def deduplicate(frame: DataFrame, rules: Rules) -> DataFrame:
    """Each event once. A stream forgets what is older than its watermark: an event that late was not accepted."""
    if frame.isStreaming:
        return frame.withWatermark("at", f"{rules.late.total_seconds()} seconds").dropDuplicatesWithinWatermark(["id"])
    return frame.dropDuplicates(["id"])


def mask(frame: DataFrame, rules: Rules) -> DataFrame:
    """Without what says who somebody is."""
    return masks.apply(frame, rules.masks, rules.salt)


def clean(frame: DataFrame, rules: Rules | None = None) -> DataFrame:
    """All of it, for a notebook: the events of ``frame`` that can be counted, each once."""
    rules = rules or Rules()
    return mask(deduplicate(accepted(judge(normalize(parse(frame)), rules)), rules), rules)
