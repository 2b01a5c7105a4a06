"""A broker whose session is over leads nothing until it has its orders again, in whatever order it hears of things."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.base.clock import ManualClock
from ottla.broker import membership
from ottla.broker.config import BrokerConfig
from ottla.broker.membership import Membership
from ottla.broker.ports import Ports
from ottla.metadata import BrokerId
from ottla.metadata.znodes import paths
from ottla.registry import ConnectionLossError, Registry, SessionExpiredError
from ottla.registry.errors import RefusedError, RegistryError, StoreClosedError
from ottla.wire import ErrorCode
from tests.peers.memorystore import MemoryEnsemble, MemoryStore
from tests.unit.broker.test_orders import Bench, lead


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "TELL_AGAIN_S", 0)


class Life:
    def __init__(self, folder: Path, store: MemoryStore) -> None:
        self.bench = Bench(folder)
        config = SimpleNamespace(broker_id=BrokerId(1), rack=None, session_timeout_ms=6000)
        self.store = store
        self.registry = Registry(store)
        self.membership = Membership(
            cast("BrokerConfig", config),
            self.registry,
            self.bench.cluster,
            cast("Ports", SimpleNamespace(endpoints=tuple)),
            self.bench.orders,
            self.bench.broker.replicas,
            [],
            ManualClock(),
        )

    @property
    def epoch(self) -> int:
        return self.bench.orders.broker_epoch

    async def told_to_lead(self, leader_epoch: int) -> ErrorCode:
        answer = await self.bench.orders.leader_and_isr(lead(epoch=leader_epoch, own=self.epoch))
        return ErrorCode(answer.error_code)


class FailingStore(MemoryStore):
    """Fails one announcement after another, for each of these reasons."""

    def __init__(self, ensemble: MemoryEnsemble, failures: list[RegistryError]) -> None:
        super().__init__(ensemble)
        self.failures = failures

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        if path == paths.LOG_DIR_EVENT_PREFIX and self.failures:
            raise self.failures.pop(0)
        return await super().create(path, data, ephemeral=ephemeral, sequential=sequential)


def play(
    folder: Path, story: Callable[[Life], Awaitable[None]], *, failures: list[RegistryError] | None = None
) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), FailingStore(MemoryEnsemble(), failures or []) as store:
            life = Life(folder, store)
            await life.registry.cluster.make_paths()
            await life.membership.register()
            assert await life.told_to_lead(0) == ErrorCode.NONE
            await story(life)
            life.bench.broker.close()

    asyncio.run(run())


def test_nothing_is_led_after_the_end_of_the_session_and_again_after_the_next_order(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        over, first = life.store.session_id, life.epoch
        life.store.expire()
        life.membership.expired(over)
        assert not life.bench.leads()
        assert await life.told_to_lead(1) == ErrorCode.STALE_BROKER_EPOCH, "it was meant for the life before"
        await life.membership.register()
        assert life.epoch > first
        assert await life.told_to_lead(2) == ErrorCode.NONE
        assert life.bench.leads()

    play(tmp_path, story)


def test_the_end_of_a_session_that_is_heard_of_late_ends_nothing_of_the_next(tmp_path: Path) -> None:
    """That its node is gone was told first: it has registered since, and the controller has spoken."""

    async def story(life: Life) -> None:
        over = life.store.session_id
        life.store.expire()
        await life.membership.look()
        again = life.epoch
        assert await life.told_to_lead(1) == ErrorCode.NONE
        life.membership.expired(over)
        assert life.bench.leads()
        await life.membership.register()
        assert life.epoch == again
        assert await life.told_to_lead(2) == ErrorCode.NONE

    play(tmp_path, story)


@pytest.mark.usefixtures("at_once")
def test_a_failed_log_directory_is_told_in_spite_of_lost_sessions_and_refusals(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        await life.membership.replicas_offline()
        controller = await life.registry.controllers.elect(BrokerId(2), timestamp_ms=1)
        assert controller is not None
        assert await life.registry.orders.take_log_dir_failures(controller) == {BrokerId(1)}

    lost = [
        ConnectionLossError("moved"),
        SessionExpiredError("over"),
        RefusedError("too much"),
        ConnectionLossError(""),
    ]
    play(tmp_path, story, failures=lost)
    assert lost == []


def test_a_failed_log_directory_is_told_to_nobody_once_the_broker_has_left(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        await life.membership.replicas_offline()
        assert await life.store.children(paths.LOG_DIR_EVENTS) == ()

    play(tmp_path, story, failures=[StoreClosedError("it stops")])
