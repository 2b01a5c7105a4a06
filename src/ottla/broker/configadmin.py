"""Settings changed while the broker runs: asked for by a client, written to ``/config``, heard of by every broker.

A change is judged against what the ensemble holds, written, announced, and applied here at once, so that whoever changed
something finds it changed. Every broker hears of it by the announcement and reads the entity; what was announced while it was
away is read when it is back. Two changes through one broker follow each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final

from ottla.base.clock import Clock
from ottla.metadata.errors import ZnodeError
from ottla.metadata.znodes.configs import ConfigEntity, topic_entity
from ottla.registry import Registry

log = logging.getLogger(__name__)

Apply = Callable[[ConfigEntity, Mapping[str, str]], None]
Change = Callable[[Mapping[str, str]], Mapping[str, str]]


class ResourceKind(IntEnum):
    """What has settings that clients may see, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


RESOURCE_KINDS: Final[dict[int, ResourceKind]] = {int(kind): kind for kind in ResourceKind}


class ConfigAdmin:
    def __init__(self, registry: Registry, clock: Clock, apply: Apply) -> None:
        self._registry = registry
        self._clock = clock
        self._apply = apply
        self._heard = -1
        self._changing = asyncio.Lock()

    async def read_all(self) -> dict[ConfigEntity, dict[str, str]]:
        """Everything there is. What is announced from here on is news."""
        self._heard = max(await self._registry.configs.changes(), default=-1)
        return await self._registry.configs.read_all()

    async def read(self, entity: ConfigEntity) -> dict[str, str]:
        return await self._registry.configs.read(entity)

    async def on_changes(self) -> None:
        """Something was announced under ``/config/changes``."""
        async with self._changing:
            news = await self._registry.configs.changes(after=self._heard)
            self._heard = max(news, default=self._heard)
            for entity in dict.fromkeys(news.values()):
                await self._take(entity)
        await self._registry.configs.forget_changes(now_ms=self._clock.wall_ms())

    async def learn_topics(self, names: Iterable[str]) -> None:
        """Topics that are new here may have been made with settings, and that is not announced."""
        await asyncio.gather(*(self._take(topic_entity(name)) for name in sorted(names)))

    async def alter(self, entity: ConfigEntity, change: Change, *, validate_only: bool) -> None:
        """Have an entity's settings be what ``change`` makes of them; it raises what speaks against that."""
        async with self._changing:
            config = change(await self._registry.configs.read(entity))
            if not validate_only:
                await self._registry.configs.write(entity, config)
                self._apply(entity, config)

    async def _take(self, entity: ConfigEntity) -> None:
        try:
            self._apply(entity, await self._registry.configs.read(entity))
        except ZnodeError as error:
            # Whoever wrote it is to blame, and this broker goes on as it was.
            log.error("%s", error)  # noqa: TRY400
