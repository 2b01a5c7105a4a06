"""Access control lists, of which there are none yet: a broker without an authorizer answers as Kafka's does.

Clients look, MirrorMaker before all, and take this answer for what it is.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import RemoteProtocolError

NO_AUTHORIZER: Final = "No Authorizer is configured."
NO_AUTHORIZER_HERE: Final = "No Authorizer is configured on the broker"


def check_known(resource_type: int, pattern_type: int, operation: int, permission_type: int) -> None:
    """Whoever sends a 0, which means unknown, is hung up on, as by Kafka, which takes any other number."""
    if not (resource_type and pattern_type and operation and permission_type):
        raise RemoteProtocolError("a rule of access control with elements that are unknown")
