"""ElectLeaders: preferred replicas lead again, or whoever is alive leads at last (KIP-460).

Who asks for all partitions hears only of those that needed an election. The answer waits until this broker knows the new
leaders, or until the time is up.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.asking import ask
from ottla.broker.context import Context
from ottla.controller.acts.leaders import Outcomes
from ottla.controller.controller import Controller
from ottla.metadata.ids import TopicPartition
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED, _UNCLEAN = 0, 1


def handle(ctx: Context, request: ElectLeadersRequest) -> Answer:
    def refuse(code: ErrorCode) -> ElectLeadersResponse:
        wanted = _wanted(request) or []
        return _response(dict.fromkeys(wanted, (code, None)), code)

    async def deed(controller: Controller) -> ElectLeadersResponse:
        wanted = _wanted(request)
        outcomes = await controller.elect(wanted, unclean=request.election_type == _UNCLEAN)
        await _until_known(ctx, controller, outcomes, request.timeout_ms)
        if wanted is None:
            outcomes = {
                where: outcome for where, outcome in outcomes.items() if outcome[0] != ErrorCode.ELECTION_NOT_NEEDED
            }
        return _response(outcomes, ErrorCode.NONE)

    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return refuse(ErrorCode.INVALID_REQUEST)
    return ask(ctx, deed, refuse)


async def _until_known(ctx: Context, controller: Controller, outcomes: Outcomes, timeout_ms: int) -> None:
    """Wait until this broker has heard who leads; what it has not heard of in time is told as such."""
    image = controller.image
    led = {where for where, (code, _) in outcomes.items() if code == ErrorCode.NONE}
    decided = {} if image is None else {where: state for where in led if (state := image.state(where)) is not None}

    def unheard() -> list[TopicPartition]:
        here = ctx.services.cluster.image
        return [
            where
            for where, state in decided.items()
            if (known := here.state(where)) is None or known.leader_epoch < state.leader_epoch
        ]

    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_ms / 1000):
            while unheard():
                changed = asyncio.Event()
                ctx.services.cluster.when_changed(changed.set)
                await changed.wait()
    for where in unheard():
        outcomes[where] = (ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")


def _wanted(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return [TopicPartition(each.topic, number) for each in request.topic_partitions for number in each.partitions]


def _response(outcomes: Outcomes, code: ErrorCode) -> ElectLeadersResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for where, (error, message) in outcomes.items():
        result = PartitionResult(partition_id=where.partition, error_code=error, error_message=message)
        topics.setdefault(where.topic, []).append(result)
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=results) for name, results in topics.items()
        ],
    )


HANDLER = Handler(ApiKey.ELECT_LEADERS, handle, Operation.ALTER, Resource.CLUSTER)
