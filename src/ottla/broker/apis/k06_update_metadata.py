"""UpdateMetadata: the controller tells what clients are to be told. ``orders`` does it."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource, later
from ottla.broker.context import Context
from ottla.wire import ApiKey
from ottla.wire.messages.k06_update_metadata import UpdateMetadataRequest


def handle(ctx: Context, request: UpdateMetadataRequest) -> Answer:
    return later(ctx.services.scope, ctx.services.orders.update_metadata(request), name="update_metadata")


HANDLER = Handler(ApiKey.UPDATE_METADATA, handle, Operation.CLUSTER_ACTION, Resource.CLUSTER)
