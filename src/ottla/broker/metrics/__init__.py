"""``GET /metrics``: the broker in numbers.

Names are those that the usual rules of the JMX exporter give Kafka's, and kafka_exporter's for consumer lag.
Everything is read when it is asked for. What a
request pays is the addition of a few integers (``Route.count``, ``Log.bytes_in``); one in 64 is timed (``tallies``).
"""

from __future__ import annotations

from ottla.broker.metrics.families import Labels
from ottla.broker.metrics.page import render
from ottla.broker.metrics.partitions import Totals
from ottla.broker.metrics.requests import Idleness, Paces

__all__ = ["Idleness", "Labels", "Paces", "Totals", "render"]
