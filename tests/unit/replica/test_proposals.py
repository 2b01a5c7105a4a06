"""What becomes of a proposed ISR, whatever the controller answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.metadata import BrokerId
from ottla.replica import proposals as module
from ottla.replica.proposals import IsrProposals
from ottla.wire import ErrorCode
from ottla.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.unit.replica.pairs import WHERE, Broker

A, B = 1, 2


class Controllers:
    """Whoever answers, one code after the other, and then agrees to everything."""

    host, port = "h", 1

    def __init__(self, *codes: ErrorCode) -> None:
        self.asked = 0
        self.recovering = -1
        self.agreed = asyncio.Event()
        self.on_asked: Callable[[], None] = lambda: None
        self._codes = list(codes)

    def dial(self, host: str, port: int, *, client_id: str) -> Any:
        del host, port, client_id
        return self

    async def call(self, request: AlterPartitionRequest, *_: object, **__: object) -> AlterPartitionResponse:
        self.asked += 1
        self.on_asked()
        (topic,) = request.topics
        (data,) = topic.partitions
        self.recovering = data.leader_recovery_state
        answer = ResponsePartitionData(partition_index=WHERE.partition)
        if self._codes:
            answer.error_code = self._codes.pop(0)
        else:
            answer.leader_epoch = data.leader_epoch
            answer.isr = [member.broker_id for member in data.new_isr_with_epochs]
            answer.partition_epoch = data.partition_epoch + 1
            self.agreed.set()
        return AlterPartitionResponse(topics=[ResponseTopicData(topic_id=topic.topic_id, partitions=[answer])])

    def close(self) -> None:
        pass


@pytest.fixture
def leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(module, "REFUSED_S", 0.01)
    broker = Broker(tmp_path, A)
    broker.order(A, 5, (A, B), (A, B))
    yield broker
    broker.close()


async def _ask(leader: Broker, controllers: Controllers, seconds: float) -> None:
    isr_proposals = IsrProposals(BrokerId(A), lambda: ("h", 1), lambda: 1, dial=cast("Any", controllers.dial))
    leader.append("m")
    leader.partition.check_lag(now_s=100.0, lag_s=10.0)
    isr_proposals.propose(leader.partition, leader.proposals.pop())
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            running = asyncio.ensure_future(isr_proposals.run())
            await controllers.agreed.wait()
            await asyncio.sleep(0.01)  # it is told by then
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def propose(leader: Broker, controllers: Controllers, *, seconds: float) -> None:
    """B is to leave, and time passes until the controller agrees, or ``seconds``."""
    asyncio.run(_ask(leader, controllers, seconds))


def test_one_that_a_deposed_controller_calls_superseded_is_judged_by_its_successor(leader: Broker) -> None:
    codes = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NEW_LEADER_ELECTED, ErrorCode.NOT_CONTROLLER
    controllers = Controllers(*codes)
    propose(leader, controllers, seconds=10)
    assert leader.partition.isr == (A,)
    assert controllers.asked == len(codes) + 1


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_CONTROLLER])
def test_one_that_is_superseded_is_not_asked_again_without_a_pause(
    leader: Broker, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    monkeypatch.setattr(module, "REFUSED_S", 60.0)
    controllers = Controllers(code)
    propose(leader, controllers, seconds=0.1)
    assert controllers.asked == 1
    assert leader.partition.isr == (A, B)


def test_one_that_an_order_has_overtaken_is_forgotten(leader: Broker) -> None:
    controllers = Controllers(ErrorCode.NEW_LEADER_ELECTED)
    controllers.on_asked = lambda: leader.order(A, 6, (A, B), (A, B), version=1)
    propose(leader, controllers, seconds=0.1)
    assert controllers.asked == 1
    assert leader.partition.isr == (A, B)


def test_who_was_elected_uncleanly_has_recovered_when_it_leads(leader: Broker) -> None:
    """The controller refuses a leader that says otherwise any company."""
    leader.order(A, 6, (A, B), (A, B), version=1, recovering=True)
    controllers = Controllers()
    propose(leader, controllers, seconds=10)
    assert controllers.recovering == 0
    assert leader.partition.isr == (A,)
