"""The controller as a running thing: a task that takes events from the registry one at a time.

    elected → read the image → bring up what is new, mend what is broken → tell

Everything it writes is guarded by its epoch. A write that fails that guard means that another controller rules: it drops
what it knows and waits for the next election. A state that was changed under its hands is read again and decided again.
"""

from __future__ import annotations

import logging
from asyncio import Lock
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ottla.base.clock import Clock
from ottla.controller.decisions import States, first_states, next_states
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import ControllerEpoch, Image
from ottla.metadata.znodes import paths
from ottla.registry import ControllerMovedError, Registry
from ottla.registry.store import ChildrenChanged, DataChanged, Event
from ottla.registry.topics import StateUpdates

log = logging.getLogger(__name__)


class Brokers(Protocol):
    """Who is told what was decided. For now that is this broker; the others hear by LeaderAndIsr and UpdateMetadata."""

    def decided(self, image: Image) -> None: ...
    def deleted(self, topic: str) -> None: ...


class Controller:
    def __init__(
        self,
        registry: Registry,
        broker_id: BrokerId,
        brokers: Brokers,
        clock: Clock,
        *,
        unclean: Callable[[str], bool],
        may_delete: bool,
    ) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._brokers = brokers
        self._clock = clock
        self._unclean = unclean
        self._may_delete = may_delete
        self._acting = Lock()  # what it does takes several writes, and nothing may come in between
        self.epoch: ControllerEpoch | None = None
        self.image = Image()

    @property
    def is_active(self) -> bool:
        return self.epoch is not None

    async def start(self) -> None:
        """Watch everything that concerns a controller, and try to be it."""
        self._registry.controllers.watch()
        self._registry.brokers.watch()
        self._registry.topics.watch()
        self._registry.configs.watch()
        async with self._acting:
            await self._elect()

    async def on_event(self, event: Event) -> None:
        try:
            async with self._acting:
                await self._handle(event)
        except ControllerMovedError:
            log.info("another broker is the controller now")
            self.epoch = None

    async def topics_changed(self) -> None:
        """Somebody here wrote a topic and wants it brought up without waiting for the watch."""
        async with self._acting:
            if self.is_active:
                await self._bring_up()

    async def _handle(self, event: Event) -> None:
        if isinstance(event, DataChanged) and event.path == paths.CONTROLLER:
            if event.znode is None:
                self.epoch = None
                await self._elect()
            return
        if not isinstance(event, ChildrenChanged) or not self.is_active:
            return
        match event.path:
            case paths.BROKER_IDS:
                self.image = self.image.with_brokers(await self._registry.brokers.read_all())
                await self._mend()
            case paths.TOPICS:
                await self._bring_up()
            case paths.DELETE_TOPICS:
                await self._delete(event.children or ())
            case paths.CONFIG_CHANGES:
                self.image = replace(self.image, configs=await self._registry.configs.read_all())
                self._brokers.decided(self.image)

    async def _elect(self) -> None:
        self.epoch = await self._registry.controllers.elect(self._broker_id, timestamp_ms=self._clock.wall_ms())
        if self.epoch is None:
            return
        log.info("broker %d is the controller, epoch %d", self._broker_id, self.epoch.epoch)
        self.image = await self._registry.read_image()
        await self._bring_up()
        await self._mend()
        await self._delete(tuple(self.image.deletions))

    async def _bring_up(self) -> None:
        """Topics that came, partitions that were added."""
        epoch = self._epoch()
        topics = await self._registry.topics.read_all()
        gone = [name for name in self.image.topics if name not in topics]
        for name in gone:
            self.image = self.image.without_topic(name)
        self.image = self.image.with_topics(topics)
        states: States = {}
        for topic in topics.values():
            states |= first_states(topic, self.image.brokers.keys(), controller_epoch=epoch.epoch)
        if states:
            await self._learn(await self._registry.topics.create_states(states, epoch))
        self.image = replace(self.image, configs=await self._registry.configs.read_all())
        self._brokers.decided(self.image)
        for name in gone:
            self._brokers.deleted(name)

    async def _mend(self) -> None:
        """Brokers came or went."""
        epoch = self._epoch()
        for topic in self.image.topics.values():
            new = first_states(topic, self.image.brokers.keys(), controller_epoch=epoch.epoch)
            if new:
                await self._learn(await self._registry.topics.create_states(new, epoch))
        states = next_states(self.image, controller_epoch=epoch.epoch, unclean=self._unclean)
        while states:
            updates = await self._registry.topics.update_states(states, epoch)
            await self._learn(updates)
            states = (
                next_states(self.image, controller_epoch=epoch.epoch, unclean=self._unclean) if updates.retry else {}
            )
        self._brokers.decided(self.image)

    async def _delete(self, names: tuple[str, ...]) -> None:
        epoch = self._epoch()
        for name in names:
            if name not in self.image.topics or not self._may_delete:
                await self._registry.topics.cancel_deletion(name, epoch)
                continue
            log.info("deleting topic %s", name)
            self.image = self.image.without_topic(name)
            self._brokers.deleted(name)
            await self._registry.topics.delete(name, epoch)
        if names:
            self._brokers.decided(self.image)

    async def _learn(self, updates: StateUpdates) -> None:
        """Believe what was written; read again what was not."""
        self.image = self.image.with_states(updates.done)
        if updates.retry:
            late: list[TopicPartition] = list(updates.retry)
            self.image = self.image.with_states(await self._registry.topics.states(late))

    def _epoch(self) -> ControllerEpoch:
        assert self.epoch is not None, "only an elected controller acts"
        return self.epoch
