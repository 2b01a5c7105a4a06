"""All znodes of a cluster under one roof, and the whole cluster read as an image."""

from __future__ import annotations

from dataclasses import replace

from ottla.metadata.image import Image
from ottla.registry.brokers import Brokers
from ottla.registry.cluster import Cluster
from ottla.registry.configs import Configs
from ottla.registry.controllers import Controllers
from ottla.registry.orders import Orders
from ottla.registry.store import ZnodeStore
from ottla.registry.topics import Topics


class Registry:
    """The operations of a cluster, over any store; the store is the one that has the session and the events."""

    def __init__(self, store: ZnodeStore) -> None:
        self.store = store
        self.brokers = Brokers(store)
        self.cluster = Cluster(store)
        self.configs = Configs(store)
        self.controllers = Controllers(store)
        self.orders = Orders(store)
        self.topics = Topics(store)

    async def read_image(self) -> Image:
        """The cluster as it is now, one part after another: what changes meanwhile is told to whoever watches first.

        Settings come last. Those of a topic are there before it is, and nobody is told of them.
        """
        controller = await self.controllers.current()
        image = Image(
            cluster_id=await self.cluster.cluster_id(),
            controller=None if controller is None else controller.registration,
            controller_epoch=await self.controllers.epoch(),
            features=await self.cluster.features(),
            deletions=frozenset(await self.topics.deletions()),
        )
        image = image.with_brokers(await self.brokers.read_all()).with_topics(await self.topics.read_all())
        return replace(image, configs=await self.configs.read_all())
