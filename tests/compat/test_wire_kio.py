"""kio, a codec that others wrote from the same definitions, reads what we write and writes the same bytes.

kio has types for error codes and times, so the values are gentle: no code that nobody knows, no time before 1970.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any

import pytest

from ottla import wire
from ottla.wire import table
from tests.messages import Samples, every_version
from tests.peers.pythons import packages

CHANGED = {
    # kio has the 4.x form of this version, which is another one under the same number.
    ("ReadShareGroupStateSummaryResponse", 0)
}


@pytest.fixture(scope="module")
def classes() -> Iterator[dict[tuple[str, int], Any]]:
    """kio's classes by message and version."""
    path = str(packages("kio-0.6.5"))
    sys.path.append(path)
    try:
        names = import_module("kio.schema.index").schema_name_map
        yield dict(_found(names))
    finally:
        sys.path.remove(path)


def _found(names: Any) -> Iterator[tuple[tuple[str, int], Any]]:
    for versions in names.values():
        for version, kinds in versions.items():
            for path in kinds.values():
                module, _, name = path.partition(":")
                yield (name, version), getattr(import_module(module), name)


def _same_bytes(cls: Any, name: str, version: int, seeds: range) -> None:
    serial = import_module("kio.serial")
    read, write = serial.entity_reader(cls), serial.entity_writer(cls)
    for seed in seeds:
        frame = wire.encode(Samples(Random(seed), gentle=True).message(name, version), version)
        entity, size = read(frame, 0)
        assert size == len(frame)
        out = io.BytesIO()
        write(out, entity)
        assert out.getvalue() == frame


def _both(classes: dict[tuple[str, int], Any]) -> list[tuple[str, int]]:
    ours = {(name, version) for name in table.names() for version in every_version(name)}
    return sorted((ours & classes.keys()) - CHANGED)


def test_kio_writes_the_same_bytes(classes: dict[tuple[str, int], Any]) -> None:
    both = _both(classes)
    assert len(both) == 590
    for name, version in both:
        _same_bytes(classes[name, version], name, version, range(2))
