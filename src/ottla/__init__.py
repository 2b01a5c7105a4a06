"""Ottla: a highly available distributed log with Kafka's protocol, files and znodes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.sql import query as query

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Nothing heavy is loaded by whoever only starts a broker.
    if name == "query":
        return import_module("ottla.sql").query
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
