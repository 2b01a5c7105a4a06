"""``/brokers/ids``: who lives.

A broker registers by an ephemeral node. Its czxid, unique in the history of the ensemble, is the broker's epoch. The
node is created and then set in one multi, since only the answer to the latter brings the czxid.

A node that is there already belongs to
  - this session: an earlier attempt was done and its answer lost; all is well;
  - an earlier session of this process, which ended without the ensemble knowing: it is deleted;
  - a stranger: an earlier process whose session has not run out yet, so waiting helps, or a second broker of the same
    id, so it does not. Whoever registers says how long to wait, and may know how to tell the two apart: then the place
    of a dead one is taken at once, in one multi, and a live one is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ottla.metadata.ids import BrokerId
from ottla.metadata.image import ControllerEpoch, LiveBroker
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.brokers import BrokerRegistration, decode_broker, encode_broker
from ottla.registry.errors import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError
from ottla.registry.guard import guarded
from ottla.registry.store import Create, Delete, SetData, Stat, Znode, ZnodeStore

_LOOK_AGAIN_S = 0.1

IsAlive = Callable[[BrokerRegistration], Awaitable[bool | None]]
"""Whether the broker that registered so is there; None if that cannot be told."""


class Brokers:
    """The registrations of a cluster, over a store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store
        self._own_sessions: set[int] = set()
        self.taken_over: set[int] = set()
        """Sessions of dead processes whose places were taken."""

    async def register(self, broker: BrokerRegistration, *, wait_ms: int = 0, is_alive: IsAlive | None = None) -> int:
        """Register, waiting so long for an earlier registration to go away; gives the broker's epoch."""
        path = paths.broker(broker.broker_id)
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        while True:
            self._own_sessions.add(self._store.session_id)
            try:
                return await self._create(path, encode_broker(broker))
            except ConnectionLossError:
                continue  # whether it was done shows the next attempt
            except NodeExistsError as exists:
                found = await self._store.get(path)
                if found is None:
                    continue
                if found.stat.ephemeral_owner == self._store.session_id:
                    return found.stat.czxid
                if found.stat.ephemeral_owner in self._own_sessions:
                    await self._remove(path, found)
                    continue
                alive = None if is_alive is None else await is_alive(decode_broker(broker.broker_id, found.data))
                if alive:
                    raise NodeExistsError(_in_use(broker.broker_id, found)) from exists
                if alive is False:
                    epoch = await self._take_over(path, found, encode_broker(broker))
                    if epoch is not None:
                        return epoch
                elif asyncio.get_running_loop().time() >= deadline:
                    raise NodeExistsError(f"broker {broker.broker_id} is registered by another session") from exists
                else:
                    await asyncio.sleep(_LOOK_AGAIN_S)

    async def update(self, broker: BrokerRegistration) -> None:
        """Change the registration in place; the epoch stays."""
        await self._store.set(paths.broker(broker.broker_id), encode_broker(broker))

    async def unregister(self, broker_id: BrokerId, *, epoch: int) -> bool:
        """Remove this registration and no later one; whether it was there."""
        path = paths.broker(broker_id)
        found = await self._store.get(path)
        if found is None or found.stat.czxid != epoch:
            return False
        return await self._remove(path, found)

    async def expel(self, broker_id: BrokerId, *, epoch: int, controller: ControllerEpoch) -> bool:
        """As the controller, remove the registration of a broker that is plainly gone.

        ZooKeeper cannot check a czxid. Should the broker register again between our read and our write, the new node
        may go instead of the old one; it watches its own node and will come back.
        """
        found = await self._store.get(paths.broker(broker_id))
        if found is None or found.stat.czxid != epoch:
            return False
        try:
            await guarded(self._store, controller, [Delete(paths.broker(broker_id), found.stat.version)])
        except (NoNodeError, BadVersionError):
            return False
        return True

    async def read_all(self) -> dict[BrokerId, LiveBroker]:
        """Every live broker with its epoch."""
        names = await self._store.children(paths.BROKER_IDS) or ()
        return await self.read(BrokerId(int(name)) for name in names)

    async def read(self, broker_ids: Iterable[BrokerId]) -> dict[BrokerId, LiveBroker]:
        """Those of ``broker_ids`` that live."""
        wanted = sorted(broker_ids)
        found = await self._store.get_many([paths.broker(broker_id) for broker_id in wanted])
        return {
            broker_id: LiveBroker(decode_broker(broker_id, znode.data), znode.stat.czxid)
            for broker_id, znode in zip(wanted, found, strict=True)
            if znode is not None
        }

    def watch(self) -> None:
        """Have ChildrenChanged of ``/brokers/ids`` told whenever a broker comes, goes, or comes back."""
        self._store.watch_children(paths.BROKER_IDS)

    def watch_registration(self, broker_id: BrokerId) -> None:
        """Have DataChanged told when a broker changes what it registered."""
        self._store.watch_data(paths.broker(broker_id))

    async def _create(self, path: str, data: bytes) -> int:
        _, stat = await self._store.multi([Create(path, data, ephemeral=True), SetData(path, data)])
        assert isinstance(stat, Stat)
        return stat.czxid

    async def _take_over(self, path: str, found: Znode, data: bytes) -> int | None:
        """Put our node in the place of ``found``; None if that has changed meanwhile."""
        now = await self._store.get(path)
        if now is None or now.stat.czxid != found.stat.czxid:
            return None
        gone = Delete(path, now.stat.version)
        try:
            *_, stat = await self._store.multi([gone, Create(path, data, ephemeral=True), SetData(path, data)])
        except (NoNodeError, BadVersionError, ConnectionLossError):
            return None
        assert isinstance(stat, Stat)
        self.taken_over.add(found.stat.ephemeral_owner)
        return stat.czxid

    async def _remove(self, path: str, found: Znode) -> bool:
        try:
            await self._store.delete(path, version=found.stat.version)
        except (NoNodeError, BadVersionError):
            return False
        return True


def _in_use(broker_id: BrokerId, found: Znode) -> str:
    where = ", ".join(map(str, decode_broker(broker_id, found.data).endpoints))
    return f"broker.id {broker_id} is in use: a broker of that id answers at {where}"
