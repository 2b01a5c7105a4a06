"""From clean events to what people ask for: functions of data frames, each of events alone.

They give the same for the same events, however these came, so a window can be computed again whenever one more of its events
arrives. All of them take batches; those without ``searches`` take streams with a watermark on ``at``, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, GroupedData, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

Step = tuple[str, str]
"""The name of a step of a funnel, and the condition in SQL that an event meets to take it."""

STEPS: tuple[Step, ...] = (
    ("visit", "kind = 'view'"),
    ("product", "kind = 'view' and page like '/products/%'"),
    ("cart", "kind = 'view' and page = '/cart'"),
    ("order", "kind = 'view' and page = '/order'"),
)
_OF_VISITS = ("view", "click", "search")
_ERRORS = ("ERROR", "FATAL", "CRITICAL")


def pages(events: DataFrame, *, every: str = "1 minute") -> DataFrame:
    """Page views and visitors of each page in each minute."""
    views = events.where(F.col("kind") == "view")
    counted = views.groupBy(F.window("at", every), "page").agg(
        F.count("*").alias("views"), F.size(F.collect_set("visitor")).alias("visitors")
    )
    return counted.select(F.col("window.start").alias("minute"), "page", "views", "visitors")


def sessions(events: DataFrame, *, gap: str = "30 minutes") -> DataFrame:
    """What a visitor did without a pause of ``gap``. A session ends at midnight, so that a day can be computed by itself."""
    order = F.struct("at", "id")
    found = _by_session(events, gap).agg(
        F.min("at").alias("begin"),
        F.max("at").alias("end"),
        F.count_if(F.col("kind") == "view").alias("views"),
        F.count("*").alias("events"),
        F.min_by("page", order).alias("entry"),
        F.max_by("page", order).alias("exit"),
    )
    return found.select("visitor", "begin", "end", "views", "events", "entry", "exit")


def funnel(events: DataFrame, *, steps: Sequence[Step] = STEPS, gap: str = "30 minutes") -> DataFrame:
    """How many sessions that began in an hour took the first step, and behind it the second, and so on."""
    taken = F.array(*(F.coalesce(F.expr(condition), F.lit(False)) for _, condition in steps))
    in_order = F.array_sort(F.collect_list(F.struct("at", "id", taken.alias("taken"))))
    reached = F.aggregate(
        in_order,
        F.lit(0),
        lambda so_far, event: F.when(F.get(event["taken"], so_far), so_far + 1).otherwise(so_far),
    )
    found = _by_session(events, gap).agg(F.min("at").alias("begin"), reached.alias("reached"))
    each = found.where("reached > 0").select("begin", F.explode(F.sequence(F.lit(1), "reached")).alias("step"))
    counted = each.groupBy(F.window("begin", "1 hour"), "step").agg(F.count("*").alias("sessions"))
    name = F.element_at(F.array(*(F.lit(name) for name, _ in steps)), F.col("step"))
    return counted.select(F.col("window.start").alias("since"), "step", name.alias("name"), "sessions")


def ads(events: DataFrame, *, every: str = "1 minute", within: str = "1 hour") -> DataFrame:
    """How often ads were shown in each minute, and clicked ``within`` an hour, once for each time they were shown."""
    shown = events.where(F.col("kind") == "impression").select("at", "ad", "impression")
    clicks = events.where(F.col("kind") == "ad_click").select(
        F.col("at").alias("clicked_at"), F.col("impression").alias("clicked")
    )
    soon = F.expr(f"impression = clicked and clicked_at between at and at + interval {within}")
    seen = F.when(F.col("clicked").isNotNull(), F.col("impression"))
    counted = (
        shown.join(clicks, soon, "left")
        .groupBy(F.window("at", every), "ad")
        .agg(
            F.size(F.collect_set("impression")).alias("impressions"),
            F.size(F.collect_set(seen)).alias("clicks"),
        )
    )
    rate = F.col("clicks") / F.col("impressions")
    return counted.select(F.col("window.start").alias("minute"), "ad", "impressions", "clicks", rate.alias("ctr"))


def searches(events: DataFrame, *, top: int = 10) -> DataFrame:
    """The ``top`` keywords of each hour."""
    asked = events.where(F.col("kind") == "search")
    counted = asked.groupBy(F.window("at", "1 hour"), "query").agg(F.count("*").alias("searches"))
    hours = counted.select(F.col("window.start").alias("since"), F.col("query").alias("keyword"), "searches")
    order = Window.partitionBy("since").orderBy(F.desc("searches"), "keyword")
    return hours.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= top)


def services(events: DataFrame, *, every: str = "1 minute") -> DataFrame:
    """Of each service and minute: lines of log, errors among them, and percentiles of the latency."""
    told = events.where(F.col("kind").isin("log", "metric"))
    log = F.col("kind") == "log"
    latency = F.when((F.col("kind") == "metric") & (F.col("name") == "latency_ms"), F.col("value"))
    counted = told.groupBy(F.window("at", every), "service").agg(
        F.count_if(log).alias("logs"),
        F.count_if(log & F.col("level").isin(*_ERRORS)).alias("errors"),
        F.percentile(latency, F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99))).alias("latency"),
    )
    return counted.select(
        F.col("window.start").alias("minute"),
        "service",
        "logs",
        "errors",
        F.when(F.col("logs") > 0, F.col("errors") / F.col("logs")).alias("error_rate"),
        *(F.get("latency", F.lit(place)).alias(name) for place, name in enumerate(("p50_ms", "p95_ms", "p99_ms"))),
    )


def _by_session(events: DataFrame, gap: str) -> GroupedData:
    visits = events.where(F.col("kind").isin(*_OF_VISITS))
    return visits.groupBy(F.session_window("at", gap), F.to_date("at").alias("day"), "visitor")
