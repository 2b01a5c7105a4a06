"""The keeper: a coordination ensemble that any ZooKeeper client takes for ZooKeeper.

    proto    the client protocol and transactions, as data
    server   tree, sessions, watches, ACLs; requests in, replies out
    quorum   election and atomic broadcast, as pure machines
    store    snapshots and transaction logs, in ZooKeeper's formats
    member   all of the above as one deterministic whole; ``shell`` gives it sockets, files and a clock

Each imports only from those above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.keeper.embedded import Keeper

__all__ = ["Keeper"]


def __getattr__(name: str) -> Any:
    """Import on first use: most of the package is needed without what an embedded keeper needs."""
    if name == "Keeper":
        from ottla.keeper.embedded import Keeper

        return Keeper
    raise AttributeError(name)
