"""The APIs: which key has which classes and versions, and which of those are offered.

Version notes
- The codec knows every version of Kafka 3.9. Offered is what Kafka 4 still accepts, which is all that clients use.
- Produce is offered from version 0, though 0 to 2 are refused when they come: librdkafka takes the lowest version of
  Produce as a sign of what the broker can decompress (KAFKA-18659).
- A version that is not finished is never offered, so the share group APIs of 3.9 are not offered at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import NamedTuple

from ottla.wire import table
from ottla.wire.keys import FACTS, ApiKey
from ottla.wire.message import Message
from ottla.wire.table import Versions


class Api(NamedTuple):
    key: ApiKey
    versions: Versions
    """What the codec can read and write."""
    offered: Versions
    """What ApiVersions tells; empty if no version is finished."""

    @property
    def name(self) -> str:
        """Kafka's own name, as in ``ListOffsets``."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    @property
    def request(self) -> type[Message]:
        """The class of the request; its module is imported when it is first asked for."""
        return message_class(f"{self.name}Request")

    @property
    def response(self) -> type[Message]:
        return message_class(f"{self.name}Response")


def _api(key: ApiKey) -> Api:
    low, high, floor, finished, _ = FACTS[key]
    offered = Versions(0 if key is ApiKey.PRODUCE else floor, finished)
    return Api(key, Versions(low, high), offered)


APIS = {key: _api(key) for key in ApiKey}
"""Every API by its key. A number that came over the wire can be looked up as it is."""


def offers(keys: Iterable[ApiKey]) -> list[tuple[ApiKey, Versions]]:
    """What a server that handles these keys tells a client that asks for its versions, in order."""
    found = ((key, APIS[key].offered) for key in sorted(keys))
    return [(key, versions) for key, versions in found if versions.low <= versions.high]


@cache
def message_class(name: str) -> type[Message]:
    """The class of any message in the table."""
    found: type[Message] = getattr(import_module(f"ottla.wire.messages.{table.schema(name).module}"), name)
    return found
