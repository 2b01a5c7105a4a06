"""A broker's place in the cluster: its registration, and how far others may trust it.

The registration lives as long as the session. When that is over, others may lead what was led here: nothing is led until the
broker is registered again, under a new epoch, and the controller has spoken. The same when somebody took this broker for
dead and removed its registration (``controller.lookout``).

A log directory that fails takes replicas with it though the broker lives. The controller is told that one did, and asks
which they were by ordering all of them anew. A controller that comes later, or a registration, asks by itself.

A broker that comes back from a crash says so in its registration: what it was in sync with may have lost its end. Once others
lead what is here, or the controller has told it to lead all the same, nothing is in doubt any more, and it takes that back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from ottla.base.clock import Clock
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.orders import Orders
from ottla.broker.ports import Ports
from ottla.broker.registering import register
from ottla.log import LogDirectory
from ottla.metadata.znodes.brokers import BrokerRegistration, Mark
from ottla.registry import ConnectionLossError, NoNodeError, Registry, RegistryError
from ottla.registry.errors import StoreClosedError
from ottla.replica.replicas import Replicas

log = logging.getLogger(__name__)

TELL_AGAIN_S: Final = 1.0


class Membership:
    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        cluster: ClusterView,
        ports: Ports,
        orders: Orders,
        replicas: Replicas,
        directories: Sequence[LogDirectory],
        clock: Clock,
    ) -> None:
        self._config = config
        self._registry = registry
        self._cluster = cluster
        self._ports = ports
        self._orders = orders
        self._replicas = replicas
        self._clock = clock
        self.is_clean = all(each.was_clean or not each.logs for each in directories)
        """Nothing of the logs here may have been lost in a crash, or it does not matter any more."""
        self._session_id = 0
        """Of the session that holds the registration."""

    async def register(self) -> None:
        self._orders.broker_epoch = await register(
            self._registry, self._registration(), wait_ms=2 * self._config.session_timeout_ms
        )
        self._session_id = self._registry.store.session_id

    def expired(self, session_id: int) -> None:
        """A session is over. Others may lead by now: until the controller has spoken again, nothing is led here.

        Not so if it was one before the last: that its node was gone may have been heard sooner, and then this broker is
        registered anew, and has its orders.
        """
        if session_id == self._session_id:
            self._orders.resign()

    async def look(self) -> None:
        """Somebody took this broker for dead if its registration is gone: then others lead, and it has to begin anew."""
        found = await self._registry.brokers.read([self._config.broker_id])
        live = found.get(self._config.broker_id)
        if live is None or live.epoch != self._orders.broker_epoch:
            log.warning("this broker was taken for dead; registering again")
            self._orders.resign()
            await self.register()

    async def heard_of_cluster(self) -> None:
        """Clients can be told where to go once the controller has said who is there. One may be being elected, though."""
        try:
            async with asyncio.timeout(self._config.session_timeout_ms / 1000):
                while not self._cluster.image.brokers:
                    await self._cluster_changed()
        except TimeoutError:
            log.warning("no controller has told this broker of the cluster yet")

    async def regain_trust(self) -> None:
        while not self._is_led():
            await self._cluster_changed()
        self.is_clean = True
        await self.update()

    async def update(self) -> None:
        """Have others told what is new about this broker."""
        while True:
            try:
                await self._registry.brokers.update(self._registration())
            except ConnectionLossError:
                continue
            except NoNodeError:
                return  # it is registered anew, and as it is now, where that is noticed
            return

    async def replicas_offline(self) -> None:
        """Have the controller told that replicas here failed, whatever becomes of the connection or the session meanwhile."""
        while True:
            try:
                await self._registry.orders.announce_log_dir_failure(self._config.broker_id)
            except StoreClosedError:
                return  # this broker stops
            except RegistryError as error:
                log.warning("the controller cannot be told of lost replicas yet: %s", error)
                await asyncio.sleep(TELL_AGAIN_S)
            else:
                return

    async def _cluster_changed(self) -> None:
        changed = asyncio.Event()
        self._cluster.when_changed(changed.set)
        await changed.wait()

    def _is_led(self) -> bool:
        image = self._cluster.image
        states = map(image.state, image.partitions_on(self._config.broker_id))
        return image.controller is not None and all(state is not None and state.has_leader for state in states)

    def _registration(self) -> BrokerRegistration:
        return BrokerRegistration(
            self._config.broker_id,
            self._ports.endpoints(),
            rack=self._config.rack,
            timestamp_ms=self._clock.wall_ms(),
            mark=Mark(clean=self.is_clean),
        )
