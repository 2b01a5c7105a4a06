"""Requests that only the controller may answer: parked until it has acted, refused by every other broker."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from ottla.broker.api import Answer, Parked, tend
from ottla.broker.context import Context
from ottla.controller.controller import Controller, NotControllerError
from ottla.registry import RegistryError
from ottla.wire import ErrorCode, Message

log = logging.getLogger(__name__)

Refuse = Callable[[ErrorCode], Message]


def ask(ctx: Context, deed: Callable[[Controller], Awaitable[Message]], refuse: Refuse) -> Answer:
    """The answer of the controller. ``refuse`` makes the one of a broker that is none, or has lost the registry."""
    controller = ctx.services.controller
    if not controller.is_active:
        return refuse(ErrorCode.NOT_CONTROLLER)
    parked = Parked()

    async def act() -> None:
        try:
            response = await deed(controller)
        except NotControllerError:
            response = refuse(ErrorCode.NOT_CONTROLLER)
        except (RegistryError, TimeoutError) as error:
            # It may have been done: whoever asked asks again, and finds out.
            log.warning("an answer is not known: %s", error)
            response = refuse(ErrorCode.REQUEST_TIMED_OUT)
        parked.complete(response)

    tend(ctx.services.scope, act, parked, name="what the controller was asked for")
    return parked
