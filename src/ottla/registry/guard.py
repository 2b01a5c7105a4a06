"""Writes that count only while their writer is still the controller.

Every election sets ``/controller_epoch``. A write that checks the version of that znode in the same multi therefore
fails once another controller was elected, however late it arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes import paths
from ottla.registry.errors import BadVersionError, ControllerMovedError, NoNodeError, RegistryError
from ottla.registry.store import Check, Operation, Result, ZnodeStore

_GUARD = 0
"""Where the check stands in a guarded multi."""


async def guarded(store: ZnodeStore, epoch: ControllerEpoch, operations: Sequence[Operation]) -> list[Result]:
    """Do all of ``operations`` if ``epoch`` is still the controller's, else raise ControllerMovedError."""
    outcome = (await guarded_many(store, epoch, [operations]))[0]
    if isinstance(outcome, RegistryError):
        raise outcome
    return outcome


async def guarded_many(
    store: ZnodeStore, epoch: ControllerEpoch, batches: Iterable[Sequence[Operation]]
) -> list[list[Result] | RegistryError]:
    """Several guarded multis at once. Errors are results, counted without the guard; a lost guard is raised."""
    check = Check(paths.CONTROLLER_EPOCH, epoch.zk_version)
    outcomes = await store.multi_many([check, *operations] for operations in batches)
    for outcome in outcomes:
        if isinstance(outcome, (BadVersionError, NoNodeError)) and outcome.operation == _GUARD:
            raise ControllerMovedError(f"controller epoch {epoch.epoch} is over") from outcome
    return [_without_guard(outcome) for outcome in outcomes]


def _without_guard(outcome: list[Result] | RegistryError) -> list[Result] | RegistryError:
    if not isinstance(outcome, RegistryError):
        return outcome[_GUARD + 1 :]
    if outcome.operation is not None:
        outcome.operation -= _GUARD + 1
    return outcome
