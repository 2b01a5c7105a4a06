"""Requests about topics that came to a broker which is not the controller: passed on to the one that is.

Kafka's clients ask the controller themselves, and find NOT_CONTROLLER an answer they can deal with. Whoever knows a broker and
nothing else gets what it asked for all the same. What was passed on once is not passed on again: two brokers that take each
other for the controller would never end.
"""

from __future__ import annotations

import logging
from typing import Final, TypeVar

from ottla.broker.api import Answer, later
from ottla.broker.context import Context
from ottla.metadata.ids import BrokerId
from ottla.peers import Peer, PeerLostError
from ottla.wire import Message

log = logging.getLogger(__name__)

CLIENT_ID: Final = "ottla-forwarding"
_SLACK_S: Final = 5.0
"""What the controller may take beyond the time that the client gave it."""

M = TypeVar("M", bound=Message)


def forwarded(ctx: Context, request: Message, refusal: M, *, timeout_ms: int) -> Answer:
    """The controller's answer, or the refusal where it cannot be had."""
    image, listener = ctx.services.cluster.image, ctx.services.config.inter_broker_listener
    controller = image.controller
    endpoint = None if controller is None else image.endpoint(BrokerId(controller.broker_id), listener)
    if endpoint is None or ctx.client_id == CLIENT_ID:
        return refusal
    config = ctx.services.config
    timeout_s = min(max(timeout_ms, 0) / 1000 + _SLACK_S, config.request_timeout_ms / 1000)
    peer = config.setup().dial(endpoint.host, endpoint.port, client_id=CLIENT_ID)
    asked = _ask(peer, request, ctx.version, refusal, timeout_s)
    return later(ctx.services.scope, asked, name="a request for the controller")


async def _ask(peer: Peer, request: Message, version: int, refusal: M, timeout_s: float) -> M:
    try:
        return await peer.call(request, version, type(refusal), timeout_s=timeout_s)
    except (PeerLostError, TimeoutError) as error:
        log.info("the controller does not answer what was passed on to it: %s", str(error) or "not in time")
        return refusal
    finally:
        peer.close()
