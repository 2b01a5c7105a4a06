"""A broker takes its place under ``/brokers/ids``, also if its own past still holds it.

A process that was killed leaves its registration behind until its session runs out. The next one does not wait for that: it
asks at the registered address whether a broker of that id is there.

    it answers as that id          two brokers have the same id: the newcomer is refused
    refused, or another id         nobody is there: the old registration goes, and the office of controller with it
    silence, or it cannot be told  a broker that is paused or cut off: its session has to run out

An address that this broker listens on itself cannot be another's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct

from ottla.base.errors import RemoteProtocolError
from ottla.log import LogDirectory, StorageError
from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes.brokers import BrokerRegistration, Endpoint
from ottla.registry import ConnectionLossError, ControllerMovedError, Registry
from ottla.wire import ApiKey, DecodeError, decode, parse_response_header, request_framer
from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

log = logging.getLogger(__name__)

PATIENCE_S = 1.0
"""For an answer of a broker on a network that works. Longer waits are the session's business."""
_ANSWER_BYTES_MAX = 1 << 16
_BROKER = 4
_VERSION = 1
_SIZE = Struct(">i")


async def register(registry: Registry, own: BrokerRegistration, *, wait_ms: int) -> int:
    """Register, in the place of a dead process if one is registered; gives the broker's epoch."""

    async def is_alive(registered: BrokerRegistration) -> bool | None:
        return await _is_alive(registered, own)

    epoch = await registry.brokers.register(own, wait_ms=wait_ms, is_alive=is_alive)
    for session_id in registry.brokers.taken_over:
        log.warning("broker %d takes the place of an earlier process that left without a word", own.broker_id)
        await _depose(registry, session_id)
    registry.brokers.taken_over.clear()
    return epoch


async def _depose(registry: Registry, session_id: int) -> None:
    while True:
        try:
            await registry.controllers.depose_session(session_id)
        except ConnectionLossError:
            continue  # whether it was done shows the next attempt
        except ControllerMovedError:
            return  # somebody else was quicker
        return


async def settle_id(
    registry: Registry, configured: int, directories: Sequence[LogDirectory], *, reserved_max: int
) -> BrokerId:
    """The id of a broker: the one it was given, the one its log directories know, or a new one."""
    if configured >= 0:
        return BrokerId(configured)
    for directory in directories:
        with suppress(StorageError), directory.health.guard("reading meta.properties"):
            if (meta := directory.meta) is not None:
                return BrokerId(meta.broker_id)
    return await registry.cluster.generate_broker_id(reserved_max=reserved_max)


async def _is_alive(registered: BrokerRegistration, own: BrokerRegistration) -> bool | None:
    mine = {(endpoint.host, endpoint.port) for endpoint in own.endpoints}
    verdicts = [
        False if (endpoint.host, endpoint.port) in mine else await _answers_as(registered.broker_id, endpoint)
        for endpoint in registered.endpoints
    ]
    if True in verdicts:
        return True
    return None if None in verdicts else False


async def _answers_as(broker_id: BrokerId, endpoint: Endpoint) -> bool | None:
    """Whether a broker of this id is there. A broker describes its own settings and refuses those of any other."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            try:
                return await _ask(reader, writer, broker_id)
            finally:
                writer.close()
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError, asyncio.IncompleteReadError, DecodeError, RemoteProtocolError):
        return None


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker_id: BrokerId) -> bool:
    resource = DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(broker_id), configuration_keys=["broker.id"]
    )
    frame = request_framer(DescribeConfigsRequest, _VERSION, "registering")
    writer.writelines(frame(DescribeConfigsRequest(resources=[resource]), 0))
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    if not 0 <= size <= _ANSWER_BYTES_MAX:
        raise RemoteProtocolError(f"an answer of {size} bytes")
    answer = await reader.readexactly(size)
    _, pos = parse_response_header(ApiKey.DESCRIBE_CONFIGS, _VERSION, answer)
    response = decode(DescribeConfigsResponse, _VERSION, answer, pos)
    return any(not result.error_code for result in response.results)
