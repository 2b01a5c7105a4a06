"""``/config``: settings that change while running, and the news of each change.

A change is written to the entity and then announced by a sequential node under ``/config/changes``. Whoever hears of one
reads the entity; the announcement carries no values. It may go once everybody had time to hear it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.metadata.znodes import paths
from ottla.metadata.znodes.configs import (
    KINDS,
    ConfigEntity,
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
    parse_entity_path,
)
from ottla.registry.errors import ConnectionLossError, NodeExistsError, NoNodeError
from ottla.registry.store import ZnodeStore

CHANGES_KEPT_MS: Final = 15 * 60 * 1000


class Configs:
    """The changed settings of a cluster, over a store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store

    async def read(self, entity: ConfigEntity) -> dict[str, str]:
        found = await self._store.get(entity.path)
        return {} if found is None else decode_config(entity, found.data)

    async def read_many(self, entities: Sequence[ConfigEntity]) -> dict[ConfigEntity, dict[str, str]]:
        """The settings of those of ``entities`` that have any."""
        znodes = await self._store.get_many([entity.path for entity in entities])
        pairs = ((entity, znode) for entity, znode in zip(entities, znodes, strict=True) if znode is not None)
        configs = {entity: decode_config(entity, znode.data) for entity, znode in pairs}
        return {entity: config for entity, config in configs.items() if config}

    async def read_all(self) -> dict[ConfigEntity, dict[str, str]]:
        """The settings of every entity that has any."""
        kinds = await self._store.children_many([paths.config_entities(kind) for kind in KINDS])
        names = [f"{kind}/{name}" for kind, found in zip(KINDS, kinds, strict=True) for name in found or ()]
        users = [name for name in names if name.startswith("users/")]
        clients = await self._store.children_many([f"{paths.CONFIG}/{user}/clients" for user in users])
        names += [f"{user}/clients/{name}" for user, found in zip(users, clients, strict=True) for name in found or ()]
        return await self.read_many(list(map(parse_entity_path, names)))

    async def write(self, entity: ConfigEntity, config: Mapping[str, str]) -> None:
        """Put ``config`` in the place of all the entity's settings, and announce it."""
        await self._put(entity.path, encode_config(config))
        while True:
            try:
                await self._store.create(paths.CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True)
            except ConnectionLossError:
                continue  # an announcement too many does no harm
            else:
                return

    async def changes(self, *, after: int = -1) -> dict[int, ConfigEntity]:
        """The announcements with a higher number than ``after``, in order."""
        names = await self._store.children(paths.CONFIG_CHANGES) or ()
        wanted = {
            paths.sequence(name): f"{paths.CONFIG_CHANGES}/{name}" for name in names if paths.sequence(name) > after
        }
        found = await self._store.get_many([wanted[number] for number in sorted(wanted)])
        return {
            number: decode_config_change(wanted[number], znode.data)
            for number, znode in zip(sorted(wanted), found, strict=True)
            if znode is not None
        }

    async def forget_changes(self, *, now_ms: int) -> None:
        """Delete the announcements that are so old that everybody has heard them."""
        names = await self._store.children(paths.CONFIG_CHANGES) or ()
        listed = [f"{paths.CONFIG_CHANGES}/{name}" for name in names]
        for path, znode in zip(listed, await self._store.get_many(listed), strict=True):
            if znode is not None and now_ms - znode.stat.ctime_ms > CHANGES_KEPT_MS:
                try:
                    await self._store.delete(path)
                except NoNodeError:
                    continue  # somebody else tidied up

    def watch(self) -> None:
        """Have ChildrenChanged of ``/config/changes`` told; ``changes`` says what is new."""
        self._store.watch_children(paths.CONFIG_CHANGES)

    async def _put(self, path: str, data: bytes) -> None:
        while True:
            try:
                await self._store.set(path, data)
            except NoNodeError:
                await self._make(path, data)
            except ConnectionLossError:
                continue
            else:
                return

    async def _make(self, path: str, data: bytes) -> None:
        try:
            await self._store.create(path, data)
        except NodeExistsError:
            return
        except NoNodeError:
            # A client of a user who has no settings of his own: the nodes above come first.
            await self._make(path.rpartition("/")[0], b"")
