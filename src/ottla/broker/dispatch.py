"""From a frame to the handler of its API, and from its answer to a frame.

A route is looked up by (key, version) and made when a client first uses it: the decoder of the request, the handler and
the framer of the response. What ApiVersions tells follows from the handlers that are registered, and from nothing else.

A request that cannot be understood costs its sender the connection, as with Kafka, with one exception: ApiVersions in a
version from the future is answered in version 0 with what there is, so that a newer client can ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.base.errors import RemoteProtocolError
from ottla.broker.api import Handle, Handler, Together
from ottla.broker.tallies import Framer, Tallies
from ottla.wire import APIS, ApiKey, decoder, offers, response_framer
from ottla.wire.table import Versions


class Route:
    """What to do with the requests of one API in one version. A class and no tuple: every request passes by here."""

    __slots__ = ("count", "decode", "frame", "handle", "key", "times", "together", "version")

    def __init__(self, handler: Handler, version: int, tallies: Tallies) -> None:
        api = APIS[handler.key]
        self.key = int(handler.key)
        self.version = version
        self.count = 0
        """Requests so far, for the metrics."""
        self.decode: Callable[..., Any] = decoder(api.request, version)
        self.handle: Handle = handler.handle
        self.together: Together | None = handler.together
        self.frame: Framer = tallies.counting(handler.key, response_framer(api.response, version))
        self.times = tallies.times[self.key]


class UnsupportedVersionError(RemoteProtocolError):
    """A version that this broker does not offer."""


class Dispatch:
    """The APIs of one listener."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self.handlers = {handler.key: handler for handler in handlers}
        self.tallies = Tallies(self.handlers)
        self._routes: dict[tuple[int, int], Route] = {}

    def route(self, key: int, version: int) -> Route:
        """Raises RemoteProtocolError where there is none."""
        found = self._routes.get((key, version))
        if found is None:
            found = self._routes[key, version] = self._make(key, version)
        return found

    def routes(self) -> list[Route]:
        """Those that were taken so far."""
        return list(self._routes.values())

    def offered(self) -> list[tuple[ApiKey, Versions]]:
        """Every API with the versions a client may use."""
        return offers(self.handlers)

    def _make(self, key: int, version: int) -> Route:
        handler = self.handlers.get(key)  # type: ignore[call-overload]  # an int is as good as the member it equals
        if handler is None:
            raise RemoteProtocolError(f"API {key}, which is not served here")
        api = APIS[handler.key]
        if version not in api.offered:
            raise UnsupportedVersionError(f"{api.name} version {version}; offered are {api.offered}")
        return Route(handler, version, self.tallies)
