"""DescribeCluster: the brokers, and which of them is the controller."""

from __future__ import annotations

from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey
from ottla.wire.messages.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def handle(ctx: Context, request: DescribeClusterRequest) -> DescribeClusterResponse:
    image = ctx.services.cluster.image
    brokers = []
    for broker_id in image.brokers:
        endpoint = image.endpoint(broker_id, ctx.listener)
        if endpoint is not None:
            rack = image.brokers[broker_id].registration.rack
            brokers.append(
                DescribeClusterBroker(broker_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack)
            )
    return DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=image.cluster_id or "",
        controller_id=-1 if image.controller is None else image.controller.broker_id,
        brokers=brokers,
    )


HANDLER = Handler(ApiKey.DESCRIBE_CLUSTER, handle, Operation.DESCRIBE, Resource.CLUSTER)
