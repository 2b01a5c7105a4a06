"""Streams of orders: who hears of a leader, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.base.scope import TaskScope
from ottla.controller import streams
from ottla.controller.machine.orders import Batch
from ottla.controller.streams import Streams
from ottla.metadata import BrokerId, LiveBroker
from ottla.wire import Message
from ottla.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.messages.k06_update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.unit.controller.test_orders import SENDER, T0, live, situation


class Broker:
    """Answers everything, and LeaderAndIsr only once it may."""

    def __init__(self) -> None:
        self.may_obey = asyncio.Event()
        self.heard: list[type[Message]] = []

    async def call(self, request: Message, version: int) -> Message:
        assert version > 0
        self.heard.append(type(request))
        if isinstance(request, LeaderAndIsrRequest):
            await self.may_obey.wait()
            return LeaderAndIsrResponse()
        return UpdateMetadataResponse()

    def close(self) -> None:
        pass


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)


def play(story: Callable[[dict[BrokerId, Broker], Streams], object]) -> None:
    async def run() -> None:
        brokers = {BrokerId(1): Broker(), BrokerId(2): Broker()}

        def connect(broker: LiveBroker) -> Broker:
            return brokers[broker.registration.broker_id]

        async with TaskScope() as scope:
            told = Streams(scope, SENDER, connect, lambda _answer: None)
            told.follow(live(1, 2))
            batch = Batch()
            batch.lead(T0, (BrokerId(2),))
            told.put(batch.orders(situation(1, 2), SENDER))
            await story(brokers, told)  # type: ignore[misc]
            told.stop()

    asyncio.run(run())


def test_nobody_is_sent_to_a_leader_that_does_not_know_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "OBEYED_S", 600)

    async def story(brokers: dict[BrokerId, Broker], _told: Streams) -> None:
        first, second = brokers[BrokerId(1)], brokers[BrokerId(2)]
        await until(lambda: second.heard == [LeaderAndIsrRequest])
        assert first.heard == []
        second.may_obey.set()
        await until(lambda: first.heard == [UpdateMetadataRequest])
        await until(lambda: second.heard == [LeaderAndIsrRequest, UpdateMetadataRequest])

    play(story)


def test_who_is_slow_to_obey_is_not_waited_for_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(brokers: dict[BrokerId, Broker], _told: Streams) -> None:
        await until(lambda: brokers[BrokerId(1)].heard == [UpdateMetadataRequest])
        assert brokers[BrokerId(2)].heard == [LeaderAndIsrRequest]

    monkeypatch.setattr(streams, "OBEYED_S", 0.01)
    play(story)


def test_who_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "OBEYED_S", 600)

    async def story(brokers: dict[BrokerId, Broker], told: Streams) -> None:
        await until(lambda: brokers[BrokerId(2)].heard == [LeaderAndIsrRequest])
        told.follow(live(1))
        await until(lambda: brokers[BrokerId(1)].heard == [UpdateMetadataRequest])

    play(story)
