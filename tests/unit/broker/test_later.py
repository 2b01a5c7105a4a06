"""Requests that take a task of their own, and that end with the broker."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from ottla.base.scope import TaskScope
from ottla.broker.api import Answer, later


async def _deed() -> Answer:
    return None


def test_one_that_has_not_begun_when_the_broker_stops_leaves_nothing_that_waits_to_be_begun() -> None:
    deed = _deed()

    async def run() -> None:
        async with TaskScope() as scope:
            assert not later(scope, deed, name="order").is_complete

    asyncio.run(run())
    assert inspect.getcoroutinestate(deed) == inspect.CORO_CLOSED


def test_one_that_comes_after_the_broker_has_stopped_is_not_begun() -> None:
    deed = _deed()
    with pytest.raises(RuntimeError, match="is not open"):
        later(TaskScope(), deed, name="order")
    assert inspect.getcoroutinestate(deed) == inspect.CORO_CLOSED
