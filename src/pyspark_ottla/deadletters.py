"""Malformed values to a topic of their own, with ``deadLetterTopic``, instead of rows with ``_corrupt``.

A letter is the record as it was, with its key and headers, and behind them headers that say where it came from and what is wrong
with it. All letters of what was fetched are acknowledged before its rows go on, and a task that runs again sends them again: at
least once.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ottla.scan.decoding import Decoded
from ottla.scan.formats.base import Format
from pyspark_ottla.sending import Outgoing, Sending, WriteOptions

COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
"""Of the record, that a letter is made of."""


class DeadLetters:
    def __init__(self, kafka: Mapping[str, str], topic: str) -> None:
        self._options = WriteOptions(kafka, topic)
        self._sending: Sending | None = None
        """Made for the first letter: most tasks have none."""

    def take(self, found: Decoded, malformed: pa.Array, form: Format) -> None:
        if self._sending is None:
            self._sending = Sending(self._options)
        columns = [found.arrays[name].filter(malformed) for name in COLUMNS[:-1]]
        millis = found.arrays["timestamp"].filter(malformed).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        rows = zip(*(column.to_pylist() for column in (*columns, millis)), strict=True)
        for key, value, headers, topic, partition, offset, timestamp in rows:
            own = [(header["key"], header["value"]) for header in headers or ()]
            origin = {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp}
            told = {**origin, "reason": form.fault(value)}
            added = [(name, str(content).encode()) for name, content in told.items()]
            self._sending.put(Outgoing(self._options.topic, None, key, value, own + added))
        self._sending.finish()
