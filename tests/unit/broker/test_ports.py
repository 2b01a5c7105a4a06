"""Who is connected, and for how long nobody has to be heard of."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.ports import Ports

LIMIT_MS = 600_000


class Silent:
    """A connection of which the last was heard a while before the loop's time began to be told here."""

    def __init__(self, heard_s: float) -> None:
        self.heard_s = heard_s
        self.closed_at: float | None = None
        self.now_s = 0.0

    def is_idle(self, _now_s: float, limit_s: float) -> bool:
        return self.closed_at is None and self.now_s - self.heard_s > limit_s

    def close(self) -> None:
        self.closed_at = self.now_s


def test_an_idle_connection_is_closed_within_a_second_of_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = [Silent(0.0), Silent(0.7)]

    async def sleep(seconds: float) -> None:
        for each in connections:
            each.now_s += seconds
        if all(each.closed_at is not None for each in connections):
            raise asyncio.CancelledError

    monkeypatch.setattr("ottla.broker.ports.asyncio.sleep", sleep)
    ports = Ports(cast("Any", SimpleNamespace(idle_max_ms=LIMIT_MS)))
    ports.connections = cast("Any", set(connections))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(ports.close_idle())
    for each in connections:
        assert each.closed_at is not None
        assert 0 < each.closed_at - each.heard_s - LIMIT_MS / 1000 <= 1
