"""What a broker does about what it hears from the ensemble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.config import BrokerConfig
from ottla.broker.server import BrokerServer
from ottla.metadata.znodes import paths
from ottla.registry.store import ChildrenChanged, Event


def test_settings_that_were_changed_hold_before_the_controller_elects_by_them() -> None:
    """Or an unclean election that was allowed for all brokers, through another one, would wait for the next event."""
    allowed, elected_by = [False], []

    async def on_changes() -> None:
        allowed[0] = True

    async def on_event(_event: Event) -> None:
        elected_by.append(allowed[0])

    async def events() -> AsyncIterator[Event]:
        yield ChildrenChanged(paths.CONFIG_CHANGES, ("config_change_0000000000",))

    async def run() -> None:
        server = BrokerServer(BrokerConfig({"broker.id": "1", "zookeeper.connect": "h:1"}))
        server.services = cast("Any", SimpleNamespace(configs=SimpleNamespace(on_changes=on_changes)))
        server._controller = cast("Any", SimpleNamespace(on_event=on_event))
        await server._follow(cast("Any", SimpleNamespace(session_id=1, events=events)))

    asyncio.run(run())
    assert elected_by == [True]
