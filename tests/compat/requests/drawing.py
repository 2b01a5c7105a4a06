"""What is common to all kinds of random requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from ottla.broker.apis import ALL
from ottla.wire import APIS, ApiKey, Message
from tests.compat.brokerpair import Side, Step

NAMES: Final = ("alpha", "beta", "gamma", "delta-1", "d.e", "zeta")
ROLLED: Final = "rolled"
"""A topic of small segments that no idempotent batch goes to: Kafka begins a new segment for one that it then refuses."""
COLLIDED: Final = "d.e"
COLLIDING: Final = "d_e"
BAD_NAMES: Final = ("", ".", "..", "sp ace", "ü", "x" * 250, "a/b")
PRODUCE_FLOOR: Final = 3
"""What lies below is offered for librdkafka's sake and refused; see ``wire.apis``."""


class Drawing:
    """What every kind of request is drawn from: the draw, a rough idea of what exists, and whose turn each version is."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._partitions: dict[str, int] = {}
        self._packed: set[str] = set()
        """Topics that may have a codec of their own: packing anew, Kafka gives all records of a batch that says to carry the
        time of its arrival one time."""
        self._cut: set[str] = set()
        """Topics that records were deleted of: of these Kafka finds records by time that are before the start, or none."""
        self._sequences: dict[tuple[int, int, str, int], int] = {}
        self._session_epochs: dict[int, int] = {}
        self._session_versions: dict[int, int] = {}
        self._versions = {handler.key: self._all_versions(handler.key) for handler in ALL}

    # Versions: each API goes round all of its own, so that none is left to chance.

    def _all_versions(self, key: ApiKey) -> list[int]:
        low, high = APIS[key].offered
        versions = list(range(max(low, PRODUCE_FLOOR) if key is ApiKey.PRODUCE else low, high + 1))
        self._draw.shuffle(versions)
        return versions

    def _version(self, key: ApiKey, *, least: int = 0) -> int:
        """The one that was not sent for longest, of those from ``least`` on."""
        versions = self._versions[key]
        chosen = next(version for version in versions if version >= least)
        versions.remove(chosen)
        versions.append(chosen)
        return chosen

    def _step(self, key: ApiKey, what: str, make: Callable[[Side, int], Message], *, least: int = 0) -> Step:
        return Step(key, self._version(key, least=least), what, make)

    # What requests are about.

    def _name(self) -> str:
        chance = self._draw.random()
        if chance < 0.86 and self._partitions:
            return self._draw.choice(sorted(self._partitions))
        if chance < 0.97:
            return self._draw.choice((*NAMES, COLLIDING))
        return self._draw.choice(("nowhere", *BAD_NAMES))

    def _number(self, name: str) -> int:
        if self._draw.random() < 0.93:
            return self._draw.randrange(self._partitions.get(name, 1))
        return self._draw.choice((-1, 5, 77))

    def _where(self, most: int = 3) -> dict[str, list[int]]:
        where: dict[str, list[int]] = {}
        for _ in range(self._draw.randint(1, most)):
            name = self._name()
            number = self._number(name)
            if number not in where.setdefault(name, []):
                where[name].append(number)
        return where

    def _offset(self) -> int:
        draw = self._draw
        return draw.choice((0, 0, 0, 1, draw.randrange(40), draw.randrange(40), draw.randrange(300), 100_000, -1, -7))

    def _epoch(self) -> int:
        return self._draw.choice((-1, -1, -1, -1, 0, 0, 3))
