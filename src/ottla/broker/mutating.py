"""What one request may change of the cluster, where a client has a quota for that: partitions that come and go (KIP-599).

A client that knows the error is told it, topic by topic, and tries again once it has waited. An older one gets what it asks
for and waits afterwards.
"""

from __future__ import annotations

from time import perf_counter

from ottla.broker.context import Context
from ottla.broker.quotas.clients import Mutations
from ottla.broker.topicplans import TopicError
from ottla.wire import ErrorCode


class Mutating:
    def __init__(self, ctx: Context, *, strict_from: int) -> None:
        quotas = ctx.services.quotas
        self._mutations: Mutations | None = None
        if quotas.is_on:
            self._mutations = quotas.mutations(ctx.user, ctx.client_id or "", perf_counter() * 1000)
        self._strict = ctx.version >= strict_from
        self.wait_ms = 0

    def charge(self, partitions: int) -> None:
        """Count partitions. Raises TopicError if there are too many already."""
        if self._mutations is None:
            return
        allowed = self._mutations.take(partitions, strict=self._strict)
        self.wait_ms = self._mutations.wait_ms
        if not allowed:
            raise TopicError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
