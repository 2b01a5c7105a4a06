"""Rows to topics, from within a batch of a stream.

Spark finds a sink by its name in the session of the thread, and in a batch of a stream that session does not know of Ottla's. So its
sending half is called in the workers directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame

from pyspark_ottla.sending import WriteOptions
from pyspark_ottla.sink import parse_write_options, send


def tell(frame: DataFrame, kafka: dict[str, str], topic: str) -> None:
    """Send every row, with the columns that Ottla's sink has; all of them are acknowledged, or it fails."""
    options = parse_write_options({**kafka, "topic": topic}, frame.schema)
    frame.mapInArrow(partial(_sent, options), "records LONG").collect()


def _sent(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = next(batches, None)
    if first is not None:  # or there would be a connection for nothing
        done = send(options, chain([first], batches))
        yield pa.RecordBatch.from_pydict({"records": pa.array([done.records], pa.int64())})
