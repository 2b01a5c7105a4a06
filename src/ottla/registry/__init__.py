"""The znodes of a live cluster: reads, guarded multi-writes and watches as events, over kazoo, behind one async seam.

store           the seam: a tree of znodes in asyncio
kazoostore      the seam over kazoo, on our keepers or on Apache ZooKeeper
watching        one-time watches made into values that are never missed; ``changes`` is their stream
guard           writes that count only while their writer is the controller
brokers, controllers, topics, configs, orders, cluster      what Kafka does with its znodes
registry        all of it together

async with KazooStore("host:2181/kafka") as store:
    registry = Registry(store)
    epoch = await registry.brokers.register(registration, wait_ms=18_000)
    registry.brokers.watch()
    async for event in store.events(): ...
"""

from __future__ import annotations

from ottla.registry.errors import (
    BadVersionError,
    ConnectionLossError,
    ControllerMovedError,
    NodeExistsError,
    NoNodeError,
    RegistryError,
    SessionExpiredError,
)
from ottla.registry.kazoostore import KazooStore
from ottla.registry.registry import Registry
from ottla.registry.store import ChildrenChanged, DataChanged, SessionChanged, SessionState, ZnodeStore
from ottla.registry.topics import StateUpdates

__all__ = [
    "BadVersionError",
    "ChildrenChanged",
    "ConnectionLossError",
    "ControllerMovedError",
    "DataChanged",
    "KazooStore",
    "NoNodeError",
    "NodeExistsError",
    "Registry",
    "RegistryError",
    "SessionChanged",
    "SessionExpiredError",
    "SessionState",
    "StateUpdates",
    "ZnodeStore",
]
