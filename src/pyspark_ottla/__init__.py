"""Ottla for Spark: ``spark.read.format("ottla")``, found by being installed.

Spark imports every module named ``pyspark_*`` and registers its ``DefaultSource``. It reads and writes topics of any Kafka cluster,
with the options of Spark's own Kafka connector and a few more (docs/spark.md), without a jar.

    source      what Spark sees: schema, readers, writers
    options     every option, checked once
    offsets     where to start and to end: by offset, by time, relative
    splitting   ranges to tasks
    batch       a read that ends
    stream      a read that goes on: limits, new and deleted partitions, what is committed to a group
    sink        both ways of writing
    sending     records on their way to brokers, and those that are refused
    deadletters values that are malformed, to a topic of their own
    filters     what of a condition is pushed down
    python      the Python for Spark's workers
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_ottla.source import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    # Importing pyspark is what ``python`` is there to make quicker.
    if name == "DefaultSource":
        from pyspark_ottla.source import OttlaSource

        return OttlaSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
