"""What a broker answers to a request as it comes in a frame: written, read and handled, without a connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeVar, cast

from ottla.base.clock import ManualClock
from ottla.base.scope import TaskScope
from ottla.broker.api import Answer
from ottla.broker.apis import ALL
from ottla.broker.cluster import ClusterView
from ottla.broker.context import Context
from ottla.broker.dispatch import Dispatch
from ottla.broker.fetchsessions import FetchSessions
from ottla.wire import APIS, ApiKey, Message, encode
from tests.unit.replica.pairs import Broker

LISTENER = "PLAINTEXT"
M = TypeVar("M", bound=Message)


class Asked:
    """A broker's handlers over its real logs. ``loop`` and ``scope`` are for what is not answered at once."""

    def __init__(self, broker: Broker, *, loop: object = None, scope: TaskScope | None = None, **more: object) -> None:
        self.dispatch = Dispatch(ALL)
        config = SimpleNamespace(inter_broker_listener=LISTENER, selects_replicas=False, fetch_bytes_max=1 << 20)
        self.services = SimpleNamespace(
            config=config,
            clock=ManualClock(),
            cluster=ClusterView(),
            dispatch=self.dispatch,
            fetch_sessions=FetchSessions(sessions_max=10),
            loop=loop,
            replicas=broker.replicas,
            scope=scope,
            **more,
        )
        self._context = Context(cast("Any", self.services), LISTENER, ("127.0.0.1", 1))

    def ask(self, key: ApiKey, request: Message, version: int) -> Answer:
        assert isinstance(request, APIS[key].request)
        route = self.dispatch.route(key, version)
        self._context.version = version
        return route.handle(self._context, route.decode(encode(request, version), 0))

    def told(self, key: ApiKey, request: Message, version: int, response: type[M]) -> M:
        """What is answered at once."""
        answer = self.ask(key, request, version)
        assert isinstance(answer, response), answer
        return answer
