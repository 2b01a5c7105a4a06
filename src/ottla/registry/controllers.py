"""``/controller`` and ``/controller_epoch``: who decides.

A broker becomes the controller by creating ``/controller`` and raising the epoch in one multi, so that no epoch has two
controllers. What was written by the one before is refused from then on (see guard).
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.metadata.ids import BrokerId
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.cluster import (
    INITIAL_CONTROLLER_EPOCH,
    ControllerRegistration,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from ottla.registry.errors import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError
from ottla.registry.guard import guarded
from ottla.registry.store import Create, Delete, SetData, Stat, ZnodeStore


class Controller(NamedTuple):
    """The controller now; ``czxid`` tells this election from any other."""

    registration: ControllerRegistration
    czxid: int
    session_id: int


class Controllers:
    """The election of controllers, over a store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store

    async def elect(self, broker_id: BrokerId, *, timestamp_ms: int) -> ControllerEpoch | None:
        """Try to become the controller; None if another one is.

        Whoever holds the office keeps it: that the old session is over and that its office is vacant is told in any order, so
        a broker may have been elected before it hears why it has to be.
        """
        data = encode_controller(ControllerRegistration(broker_id, timestamp_ms))
        while True:
            found = await self._store.get(paths.CONTROLLER)
            if found is not None:
                return await self.epoch() if found.stat.ephemeral_owner == self._store.session_id else None
            last = await self._epoch_or_first()
            wanted = encode_controller_epoch(last.epoch + 1)
            try:
                _, stat = await self._store.multi(
                    [
                        Create(paths.CONTROLLER, data, ephemeral=True),
                        SetData(paths.CONTROLLER_EPOCH, wanted, last.zk_version),
                    ]
                )
            except (NodeExistsError, BadVersionError):
                return None
            except ConnectionLossError:
                if (elected := await self._own_epoch(last)) is not None:
                    return elected
            else:
                assert isinstance(stat, Stat)
                return ControllerEpoch(last.epoch + 1, stat.version)

    async def current(self) -> Controller | None:
        found = await self._store.get(paths.CONTROLLER)
        if found is None:
            return None
        return Controller(decode_controller(found.data), found.stat.czxid, found.stat.ephemeral_owner)

    async def is_here(self) -> bool:
        """Whether this session holds the office now."""
        current = await self.current()
        return current is not None and current.session_id == self._store.session_id

    async def epoch(self) -> ControllerEpoch | None:
        """The epoch of the latest controller; None if there never was one."""
        found = await self._store.get(paths.CONTROLLER_EPOCH)
        return None if found is None else ControllerEpoch(decode_controller_epoch(found.data), found.stat.version)

    async def resign(self, epoch: ControllerEpoch) -> None:
        """Give up being the controller. Raises ControllerMovedError if that happened already."""
        try:
            await guarded(self._store, epoch, [Delete(paths.CONTROLLER)])
        except NoNodeError:
            return

    async def depose(self, controller: Controller, epoch: ControllerEpoch) -> bool:
        """Remove a controller that is plainly gone, and no later one; whether it was still there."""
        if (current := await self.current()) is None or current.czxid != controller.czxid:
            return False
        await self.resign(epoch)
        return True

    async def depose_session(self, session_id: int) -> bool:
        """Remove the controller if it is a process that is gone, known by its session; whether it was."""
        current, epoch = await self.current(), await self.epoch()
        if current is None or epoch is None or current.session_id != session_id:
            return False
        return await self.depose(current, epoch)

    def watch(self) -> None:
        """Have DataChanged of ``/controller`` told whenever there is another controller, or none."""
        self._store.watch_data(paths.CONTROLLER)

    async def _epoch_or_first(self) -> ControllerEpoch:
        while (epoch := await self.epoch()) is None:
            try:
                await self._store.create(paths.CONTROLLER_EPOCH, encode_controller_epoch(INITIAL_CONTROLLER_EPOCH))
            except (NodeExistsError, ConnectionLossError):
                continue
        return epoch

    async def _own_epoch(self, last: ControllerEpoch) -> ControllerEpoch | None:
        """After an election whose outcome was lost: the epoch if it was won after all."""
        current, epoch = await self.current(), await self.epoch()
        if current is None or epoch is None or current.session_id != self._store.session_id:
            return None
        return epoch if epoch.epoch == last.epoch + 1 else None
