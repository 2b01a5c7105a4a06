"""ZooKeeper's result codes, and the exception that carries one.

    Error                          (ottla.base.errors)
    └── KeeperError                a request failed; ``code`` goes into the reply header
        └── MarshallingError       bytes that are no request; the connection decides what follows
            └── NullListError      a list that may not be null is

The codes are ZooKeeper 3.9's; clients act on them.
"""

from __future__ import annotations

from enum import IntEnum

from ottla.base.errors import Error


class ErrorCode(IntEnum):
    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


class KeeperError(Error):
    """A request that cannot be granted. The message is for logs; clients see only the code."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.body = b""
        """What the reply carries all the same; nearly always nothing."""


class MarshallingError(KeeperError):
    """Bytes that cannot be read as what they should be."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.MARSHALLING_ERROR, message)


class NullListError(MarshallingError):
    """A null list of ACLs where one is needed. ZooKeeper stumbles over it while it reads the request."""
