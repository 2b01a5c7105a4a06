"""The cluster as it is read, one part after another, while it changes."""

from __future__ import annotations

import asyncio

from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.topics import ReplicaAssignment, TopicAssignment
from ottla.registry import Registry
from tests.peers.memorystore import MemoryEnsemble, MemoryStore

SETTINGS = {"unclean.leader.election.enable": "true"}


class Busy(MemoryStore):
    """Somebody makes a topic with settings just before the topics are read."""

    async def children(self, path: str) -> tuple[str, ...] | None:
        if path == paths.TOPICS:
            async with MemoryStore(self._ensemble) as other:
                assignment = TopicAssignment(None, {0: ReplicaAssignment((BrokerId(1),))})
                await Registry(other).topics.create("t", assignment, SETTINGS)
        return await super().children(path)


def test_a_topic_that_is_made_meanwhile_has_its_settings() -> None:
    async def story() -> None:
        async with Busy(MemoryEnsemble()) as store:
            registry = Registry(store)
            await registry.cluster.make_paths()
            image = await registry.read_image()
            assert image.topics.keys() == {"t"}
            assert image.topic_config("t") == SETTINGS

    asyncio.run(story())
