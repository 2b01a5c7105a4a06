"""Topics that were taken over with their records, and whose records nothing deletes before somebody says so.

``/ottla/held/T`` is there as long as that holds for a topic, and names the settings that see to it. It comes with the topic, in one
step, and goes after the settings are gone: whatever is interrupted can be done again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ottla.metadata.ids import TopicPartition
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.configs import encode_config, topic_entity
from ottla.metadata.znodes.topics import LeaderAndIsr, TopicAssignment, encode_state, encode_topic
from ottla.registry.cluster import Cluster
from ottla.registry.configs import Configs
from ottla.registry.errors import NoNodeError
from ottla.registry.store import Create, Delete, Operation, SetData, ZnodeStore

HELD: Final = "/ottla/held"


class Adoption:
    """Over a store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store
        self._configs = Configs(store)

    async def prepare(self) -> None:
        await Cluster(store=self._store).make_paths((HELD,))

    async def create(
        self,
        name: str,
        topic: TopicAssignment,
        states: Mapping[int, LeaderAndIsr],
        *,
        config: Mapping[str, str],
        held: Mapping[str, str],
    ) -> None:
        """A topic with the epochs that its partitions have reached, in one step; NodeExistsError if there is one."""
        settings = topic_entity(name).path
        left_over = await self._store.get(settings)
        data = encode_config({**config, **held})
        write: Operation = Create(settings, data)
        if left_over is not None:
            write = SetData(settings, data, left_over.stat.version)
        operations: list[Operation] = [write]
        if held:
            note = json.dumps(dict(held)).encode()
            is_noted = await self._store.get(f"{HELD}/{name}") is not None
            operations.append(SetData(f"{HELD}/{name}", note) if is_noted else Create(f"{HELD}/{name}", note))
        operations += [Create(paths.topic(name), encode_topic(topic)), Create(paths.partitions(name))]
        for number, state in states.items():
            where = TopicPartition(name, number)
            operations += [Create(paths.partition(where)), Create(paths.partition_state(where), encode_state(state))]
        await self._store.multi(operations)

    async def held(self) -> dict[str, dict[str, str]]:
        """The topics whose records are kept, whatever their age, and by which settings."""
        names = await self._store.children(HELD) or ()
        found = await self._store.get_many([f"{HELD}/{name}" for name in names])
        return {
            name: json.loads(znode.data or b"{}") for name, znode in zip(names, found, strict=True) if znode is not None
        }

    async def release(self, name: str, held: Mapping[str, str]) -> None:
        """The topic's other settings, and the defaults, hold again. What was changed since stays changed."""
        config = await self._configs.read(topic_entity(name))
        await self._configs.write(
            topic_entity(name), {key: value for key, value in config.items() if held.get(key) != value}
        )
        try:
            await self._store.multi([Delete(f"{HELD}/{name}")])
        except NoNodeError:
            return  # somebody else was at it, too
