"""Requests that name very many partitions: answered a little at a time, so that nobody else waits for them.

Most requests name a few and are answered at once. A megabyte names 65,000, and whoever sends that may wait; what he sends behind
it waits too, as answers keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ottla.base.errors import RemoteProtocolError
from ottla.base.pace import Pace
from ottla.broker.api import Answer, later
from ottla.broker.context import Context
from ottla.wire import Message

AT_ONCE_MAX: Final = 500
"""So many take a few milliseconds."""
NAMED_MAX: Final = 100_000
"""More than that nobody may name in one request: to write the answer down is done in one go."""


def stepwise(ctx: Context, count: int, response: Message, fill: Callable[[Context], Iterator[None]]) -> Answer:
    """The response that the steps of ``fill`` make, of which there are about ``count``."""
    return gradually(ctx, count, fill, lambda: response)


def gradually(
    ctx: Context, count: int, steps: Callable[[Context], Iterator[None]], finish: Callable[[], Answer]
) -> Answer:
    """What ``finish`` answers once the steps are done, of which there are about ``count``."""
    if count > NAMED_MAX:
        raise RemoteProtocolError(f"a request that names {count}, where {NAMED_MAX} is the most")
    if count > AT_ONCE_MAX:
        return later(ctx.services.scope, _at_leisure(steps(ctx.kept()), finish), name="answering about many")
    for _ in steps(ctx):
        pass
    return finish()


async def _at_leisure(steps: Iterator[None], finish: Callable[[], Answer]) -> Answer:
    pace = Pace()
    for _ in steps:
        await pace.keep()
    return finish()
