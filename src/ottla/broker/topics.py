"""Topics made, grown and taken away: what is asked is planned (``topicplans``), written, and brought up by the controller.

Whoever asked is answered when the partitions have leaders here, or when the time is up: the topic is there then too, only
not yet ready. Who has no time at all is told so at once, as with Kafka, and the topic comes nevertheless.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from ottla.base.scope import TaskScope
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.topicplans import NewTopic, TopicError, on_demand, plan_partitions, plan_topic
from ottla.controller.controller import Controller, NotControllerError
from ottla.metadata.ids import BrokerId
from ottla.metadata.image import Image, Topic
from ottla.metadata.znodes.topics import TopicAssignment
from ottla.registry import BadVersionError, NodeExistsError, Registry, RegistryError
from ottla.wire import ErrorCode

log = logging.getLogger(__name__)

ELSEWHERE_MS: Final = 3_000
"""How long one waits for a topic that another makes: it may also be on its way out."""

Done = Callable[[TopicError | None], None]


class TopicAdmin:
    def __init__(
        self,
        config: BrokerConfig,
        cluster: ClusterView,
        registry: Registry,
        controller: Controller,
        scope: TaskScope,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._registry = registry
        self._controller = controller
        self._scope = scope
        self._coming: list[str] = []

    @property
    def is_controller(self) -> bool:
        return self._controller.is_active

    @property
    def _image(self) -> Image:
        """What plans are made on: the controller's own knowledge is newer than what brokers have been told."""
        return self._controller.image or self._cluster.image

    def is_going(self, name: str) -> bool:
        """It is being deleted."""
        return name in self._controller.deleting

    def plan(self, topic: NewTopic, beside: Collection[str] = ()) -> TopicAssignment:
        """Where its partitions would be, with those ``beside`` it made too. Raises TopicError if it cannot be made."""
        return plan_topic(topic, self._image, self._config, [*self._coming, *beside])

    def plan_partitions(self, name: str, count: int, assignments: Sequence[tuple[BrokerId, ...]] | None) -> Topic:
        """The topic with more partitions. Raises TopicError if it cannot have them."""
        if self.is_going(name):
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        topic = self._image.topics.get(name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return plan_partitions(topic, count, assignments, self._image)

    def create(self, topic: NewTopic, assignment: TopicAssignment, timeout_ms: int, done: Done) -> None:
        """Write a topic that was planned; ``done`` hears when it is ready, or why it is not."""
        self._coming.append(topic.name)
        self._spawn(self._create(topic, assignment, timeout_ms), done, f"creation of {topic.name}")

    def create_on_demand(self, names: Sequence[str], done: Callable[[Mapping[str, TopicError]], None]) -> None:
        """Make the topics that somebody mentioned. ``done`` hears when they are ready, and which are not and why.

        For those that are being made already it waits as well: who asks a moment after another is not told to ask again.
        """
        errors: dict[str, TopicError] = {}
        left = set(names)

        def is_ready(name: str, error: TopicError | None) -> None:
            if error is not None:
                errors[name] = error
            left.discard(name)
            if not left:
                done(errors)

        def is_made(name: str, error: TopicError | None) -> None:
            if error is not None and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                self._spawn(self._made_elsewhere(name), partial(is_ready, name), f"wait for {name}")
            else:
                is_ready(name, error)

        for name in names:
            try:
                topic = on_demand(name, self._config)
                assignment = self.plan(topic)
            except TopicError as error:
                is_made(name, error)
                continue
            self.create(topic, assignment, self._config.request_timeout_ms, partial(is_made, name))

    async def _made_elsewhere(self, name: str) -> None:
        def is_up() -> bool:
            topic = self._cluster.image.topics.get(name)
            return topic is not None and topic.is_up

        await self._until(is_up, min(self._config.request_timeout_ms, ELSEWHERE_MS))

    def grow(
        self,
        name: str,
        count: int,
        assignments: Sequence[tuple[BrokerId, ...]] | None,
        timeout_ms: int,
        done: Done,
    ) -> None:
        """Give a topic more partitions; ``done`` hears when they are ready, or why they are not."""
        self._spawn(self._grow(name, count, assignments, timeout_ms), done, f"growth of {name}")

    def delete(self, name: str, timeout_ms: int, done: Done) -> None:
        """Take a topic away; ``done`` hears when nothing is left of it."""
        self._spawn(self._delete(name, timeout_ms), done, f"deletion of {name}")

    def _spawn(self, deed: Awaitable[None], done: Done, name: str) -> None:
        self._scope.spawn(self._do(deed, done), name=name)

    async def _do(self, deed: Awaitable[None], done: Done) -> None:
        error: TopicError | None = None
        try:
            await deed
        except TopicError as refusal:
            error = refusal
        except TimeoutError:
            error = TopicError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
        except NotControllerError as refusal:
            error = TopicError(ErrorCode.NOT_CONTROLLER, str(refusal))
        except RegistryError as failure:
            error = TopicError(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure))
        except Exception as failure:
            # What nobody foresaw is told to whoever asked, and is no end of the broker.
            log.exception("a change of a topic failed")
            error = TopicError(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure))
        done(error)

    async def _create(self, topic: NewTopic, assignment: TopicAssignment, timeout_ms: int) -> None:
        try:
            await self._registry.topics.create(topic.name, assignment, topic.configs)
            await self._controller.topics_changed()
        except NodeExistsError:
            raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.") from None
        finally:
            self._coming.remove(topic.name)
        await self._until(lambda: self._is_led(topic.name, len(assignment.partitions)), timeout_ms)

    async def _grow(
        self, name: str, count: int, assignments: Sequence[tuple[BrokerId, ...]] | None, timeout_ms: int
    ) -> None:
        while True:
            grown = self.plan_partitions(name, count, assignments)
            try:
                await self._controller.partitions_added(grown)
            except BadVersionError:
                continue  # somebody was faster; the controller knows what they made of it
            break
        await self._until(lambda: self._is_led(name, count), timeout_ms)

    async def _delete(self, name: str, timeout_ms: int) -> None:
        await self._registry.topics.request_deletion(name)
        await self._controller.deletion_asked(name)
        await self._until(lambda: name not in self._cluster.image.topics and not self.is_going(name), timeout_ms)

    def _is_led(self, name: str, partitions: int) -> bool:
        topic = self._cluster.image.topics.get(name)
        return topic is not None and sum(state.has_leader for state in topic.states.values()) >= partitions

    async def _until(self, ready: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until this broker knows; TimeoutError when the time is up, be it ready or not if there was none."""
        if timeout_ms <= 0:
            raise TimeoutError
        async with asyncio.timeout(timeout_ms / 1000):
            while not ready():
                changed = asyncio.Event()
                self._cluster.when_changed(changed.set)
                self._controller.when_acted(changed.set)
                await changed.wait()
