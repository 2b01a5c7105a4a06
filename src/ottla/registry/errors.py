"""What can come back from the ensemble instead of a result.

Error
└── RegistryError
    ├── NoNodeError, NodeExistsError, NotEmptyError, BadVersionError      the tree is not what the caller thought
    ├── ConnectionLossError           a write may or may not have been done
    ├── SessionExpiredError           the session is gone, and every ephemeral node of it
    ├── ControllerMovedError          another controller was elected; this one has no say any more
    └── RefusedError                  anything else, in ZooKeeper's words
"""

from __future__ import annotations

from ottla.base.errors import Error


class RegistryError(Error):
    """Carries which operation of a multi it was that failed, if it was one; the others were not done either."""

    def __init__(self, message: str = "", *, operation: int | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class NoNodeError(RegistryError):
    """The node, or the parent of a new one, does not exist."""


class NodeExistsError(RegistryError):
    """There is a node of that name already."""


class NotEmptyError(RegistryError):
    """The node has children, so it cannot be deleted."""


class BadVersionError(RegistryError):
    """The node was changed since it was read."""


class ConnectionLossError(RegistryError):
    """The connection went away before the answer came. A write that was under way may have been done."""


class SessionExpiredError(ConnectionLossError):
    """The session has ended before the answer came, and its ephemeral nodes with it."""


class StoreClosedError(RegistryError):
    """There will be no answer, since the store was closed."""


class ControllerMovedError(RegistryError):
    """A guarded write met a newer controller epoch."""


class RefusedError(RegistryError):
    """The ensemble refused for a reason that no caller handles."""
