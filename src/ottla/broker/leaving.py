"""A broker that is about to stop asks the controller to let others lead first (KIP-380's ControlledShutdown).

It is asked as long as something is left to be moved, and not for long: where nobody else can lead, waiting helps no one, and
a controller that does not answer may be stopping as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.broker.config import BrokerConfig
from ottla.peers import PeerLostError
from ottla.wire import ErrorCode
from ottla.wire.messages.k07_controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

log = logging.getLogger(__name__)

VERSION: Final = 3
PATIENCE_S: Final = 5.0
"""Unless ``controller.socket.timeout.ms`` was set."""
FIRST_PAUSE_S: Final = 0.1

Address = tuple[str, int]


async def hand_over(
    config: BrokerConfig, *, broker_epoch: int, controller: Callable[[], Address | None], has_others: Callable[[], bool]
) -> None:
    """Have this broker's partitions led by others, as far as there are any."""
    if not config.controlled_shutdown:
        return
    pause_s = FIRST_PAUSE_S
    for _ in range(max(config.controlled_shutdown_retries, 1)):
        if not has_others():
            return
        address = controller()
        if address is not None and await _is_done(config, broker_epoch, address):
            return
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, config.controlled_shutdown_backoff_ms / 1000)
    log.warning("stopping without having handed over everything")


async def _is_done(config: BrokerConfig, broker_epoch: int, address: Address) -> bool:
    peer = config.setup().dial(*address, client_id=str(config.broker_id))
    timeout_s = config.controller_timeout_s or PATIENCE_S
    request = ControlledShutdownRequest(broker_id=config.broker_id, broker_epoch=broker_epoch)
    try:
        response = await peer.call(request, VERSION, ControlledShutdownResponse, timeout_s=timeout_s)
    except (PeerLostError, TimeoutError) as error:
        log.info("the controller does not answer: %s", str(error) or "not in time")
        return False
    finally:
        peer.close()
    if response.error_code:
        log.info("the controller does not take over: %s", ErrorCode(response.error_code).name)
        return False
    left = response.remaining_partitions
    if left:
        log.info("%d partitions have nobody else to lead them", len(left))
    return not left
