"""A pipeline that runs: over history in one go, or as a stream.

In one go, everything that is in the topics now takes the place of everything that was in the tables. A stream goes on where its
checkpoint says, and the first time behind what was read in one go, if it was. Batches of a stream that failed are tried again:
the tables know which of them count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipeline.batch import Batches, Counted
from ottla.pipeline.definition import Definition
from ottla.pipeline.events import CARRYING_SCHEMA, SOURCE_SCHEMA
from ottla.pipeline.store import State, Store, StoreError
from ottla.scan.cluster import Cluster
from ottla.scan.settings import parse_settings

_ATTEMPTS = 6
_BUSY = "failed to connect back"
_BUSY_ATTEMPTS = 60
"""Spark gives a Python worker ten seconds to start, which a busy machine may need: that is no reason to give up soon."""
_PAUSE_S = 2.0
Tell = Callable[[State], None]


class Pipeline:
    """One definition on one cluster. ``settings`` are those of a Kafka client."""

    def __init__(self, definition: Definition, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self._definition = definition
        self._spark = spark
        self._settings = dict(settings)
        self._kafka = {f"kafka.{name}": value for name, value in self._settings.items()}
        self._schema = SOURCE_SCHEMA if definition.dead_letter_topic is None else CARRYING_SCHEMA
        self.store = Store(definition.directory)

    def run_batch(self, tell: Tell = lambda _: None) -> State:
        """All that is there now."""
        with self.store.locked():
            before = self.store.load()
            if before.stream is not None:
                raise StoreError(
                    f"{self._definition.directory} is written by a stream: give another directory, or remove this one"
                )
            batches = self._batches()
            state, counted = self._history(batches)
            state.offsets = self._complete(counted.ends)
            now = time.time()
            state.retired = before.retired + [(one.path, now) for files in before.tables.values() for one in files]
            self.store.commit(state, keep=self._definition.serving.keep)
            tell(state)
            return state

    def _history(self, batches: Batches) -> tuple[State, Counted]:
        """All tables anew, from what the topics hold."""
        for attempt in range(_BUSY_ATTEMPTS):
            state = State()
            reader = self._spark.read.format("ottla").options(
                **self._source(), startingOffsets=self._definition.starting
            )
            try:
                return state, batches.add(reader.schema(self._schema).load(), state, "history")
            except PySparkException as error:
                if _BUSY not in str(error) or attempt == _BUSY_ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE_S)
        raise AssertionError

    def run_stream(self, tell: Tell = lambda _: None, *, available_now: bool = False) -> State:
        """Until somebody stops it; with ``available_now``, until it has read what is there."""
        with self.store.locked():
            batches = self._batches()
            failures = busy = 0
            while True:
                begun = self.store.load().batch
                query = self._start(batches, tell, available_now=available_now)
                try:
                    query.awaitTermination()
                    return self.store.load()
                except StreamingQueryException as error:
                    if self.store.load().batch > begun:
                        failures = busy = 0
                    if _BUSY in str(error):
                        busy += 1
                    else:
                        failures += 1
                    if failures == _ATTEMPTS or busy == _BUSY_ATTEMPTS or _is_final(error):
                        raise
                    time.sleep(_PAUSE_S)
                finally:
                    _stop(query)

    def _start(self, batches: Batches, tell: Tell, *, available_now: bool) -> StreamingQuery:
        checkpoint = self._definition.directory / "checkpoint"
        state = self.store.load()
        if state.stream is not None and not (checkpoint / "metadata").exists():
            raise StoreError(f"the checkpoint of {self._definition.directory} is gone: remove the rest as well")
        starting = json.dumps(state.offsets) if state.offsets else self._definition.starting
        reader = self._spark.readStream.format("ottla").options(**self._source(), startingOffsets=starting)

        def batch(frame: DataFrame, number: int) -> None:
            self._stream_batch(batches, frame, number, tell)

        writer = reader.schema(self._schema).load().writeStream.foreachBatch(batch)
        writer = writer.queryName(self._definition.name).option("checkpointLocation", str(checkpoint))
        if available_now:
            return writer.trigger(availableNow=True).start()
        milliseconds = int(self._definition.serving.trigger.total_seconds() * 1000)
        return writer.trigger(processingTime=f"{milliseconds} milliseconds").start()

    def _stream_batch(self, batches: Batches, frame: DataFrame, number: int, tell: Tell) -> None:
        state = self.store.load()
        query = json.loads((self._definition.directory / "checkpoint" / "metadata").read_text())["id"]
        if state.stream not in (None, query):
            raise StoreError(f"{self._definition.directory} was written by another stream, {state.stream}")
        if number <= state.batch:
            return  # it counts already; only Spark was not told
        keep = self._definition.serving.keep
        batches.add(frame, state, f"{number:09d}")
        state.stream, state.batch = query, number
        self.store.commit(state, keep=keep)
        tell(state)
        if batches.compact(state):
            self.store.commit(state, keep=keep)

    def _batches(self) -> Batches:
        rules = self._definition.rules
        rules = rules if rules.salt else replace(rules, salt=self.store.salt())
        return Batches(self._definition, self._spark, self.store, rules, self._kafka)

    def _source(self) -> dict[str, str]:
        topics = ",".join(self._definition.topics)
        return {**self._definition.source, **self._kafka, "subscribe": topics, "valueFormat": "json"}

    def _complete(self, ends: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Where to go on, also in partitions where nothing was: -2 is their beginning."""
        with Cluster(parse_settings(self._settings)) as cluster:
            found = cluster.partitions(list(self._definition.topics))
        return {
            topic: {str(number): ends.get(topic, {}).get(str(number), -2) for number in numbers}
            for topic, numbers in found.items()
        }


def _is_final(error: PySparkException) -> bool:
    """Whether trying again would end the same."""
    return any(name in str(error) for name in ("StoreError", "OptionError", "UnknownTopicError", "DataLossError"))


def _stop(query: StreamingQuery) -> None:
    with suppress(PySparkException):  # what it died of was told
        query.stop()
