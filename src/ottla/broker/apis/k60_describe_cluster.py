"""DescribeCluster: the brokers, and which of them is the controller."""

from __future__ import annotations

from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.authorized import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.broker.context import Context
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2
"""What a client takes this end for (KIP-919). Only KRaft has controllers that are asked apart from brokers."""


def handle(ctx: Context, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"This is a broker, and endpoint type {request.endpoint_type} was asked for",
        )
    cluster = ctx.services.cluster
    brokers = [
        DescribeClusterBroker(broker_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack)
        for broker_id, endpoint, rack in cluster.reachable(ctx.listener)
    ]
    controller_id = cluster.controller_id
    return DescribeClusterResponse(
        cluster_id=cluster.image.cluster_id or "",
        controller_id=controller_id if any(broker.broker_id == controller_id for broker in brokers) else -1,
        brokers=brokers,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


HANDLER = Handler(ApiKey.DESCRIBE_CLUSTER, handle, Operation.DESCRIBE, Resource.CLUSTER)
