"""``/brokers/ids/N``: a live broker, where it listens and what it can do. Ephemeral; its czxid is the broker epoch.

    version 1, 2    host, port, jmx_port: one plaintext listener
    version 3       endpoints, each ``PROTOCOL://host:port``; rack
    version 4       endpoints by listener name, with listener_security_protocol_map
    version 5       features (KIP-584)

    ottla           what Ottla's brokers say beside, and Apache's leave out and do not look at

The members host, port and version 1's jmx_port are kept for readers of old: the first plaintext listener, or null, -1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.metadata.documents import Document, encode
from ottla.metadata.errors import ZnodeError
from ottla.metadata.hashorder import immutable_order, java_order
from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes import paths

VERSION: Final = 5


class Endpoint(NamedTuple):
    """Where a broker is reached through one of its listeners."""

    listener: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        """The spelling of listeners in configuration files and znodes. An IPv6 address stands in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class SupportedVersions(NamedTuple):
    """The versions of a feature that a broker can work with."""

    min_version: int
    max_version: int


class Mark(NamedTuple):
    """What one of Ottla's brokers tells the others of its kind."""

    clean: bool = True
    """Its logs are as it left them. Not so after a crash, until it has caught up with whoever leads."""


class BrokerRegistration(NamedTuple):
    """What a broker says about itself."""

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, SupportedVersions] = {}
    jmx_port: int = -1
    timestamp_ms: int = 0
    mark: Mark | None = None
    """None: not one of Ottla's. Such a one registers before it listens, so that no conclusion can be drawn from silence."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where ``listener`` is reached, or None if this broker has no such listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


def encode_broker(broker: BrokerRegistration) -> bytes:
    """The registration as a 3.9 broker writes it."""
    plaintext = next((end for end in broker.endpoints if end.security_protocol == "PLAINTEXT"), None)
    protocols = {endpoint.listener: endpoint.security_protocol for endpoint in broker.endpoints}
    features = {
        name: {"min_version": range_.min_version, "max_version": range_.max_version}
        for name, range_ in broker.features.items()
    }
    rack = {} if broker.rack is None else {"rack": broker.rack}
    return encode(
        {
            "features": java_order(features),
            "listener_security_protocol_map": immutable_order(protocols),
            "endpoints": [str(endpoint) for endpoint in broker.endpoints],
            **rack,
            "jmx_port": broker.jmx_port,
            "port": plaintext.port if plaintext else -1,
            "host": plaintext.host if plaintext else None,
            "version": VERSION,
            "timestamp": str(broker.timestamp_ms),
            **({} if broker.mark is None else {"ottla": {"clean": broker.mark.clean}}),
        }
    )


def decode_broker(broker_id: BrokerId, data: bytes | None) -> BrokerRegistration:
    document = Document.parse(paths.broker(broker_id), data)
    version = document.version(1, 2, 3, 4, VERSION)
    if version < 3:
        old = Endpoint("PLAINTEXT", document.text("host"), document.integer("port"), "PLAINTEXT")
        endpoints: tuple[Endpoint, ...] = (old,)
    else:
        protocols = document.text_members("listener_security_protocol_map") if version >= 4 else None
        endpoints = tuple(_endpoint(document.path, text, protocols) for text in document.texts("endpoints"))
    return BrokerRegistration(
        broker_id,
        endpoints,
        rack=document.text("rack") if "rack" in document else None,
        features=_features(document) if version >= 5 and "features" in document else {},
        jmx_port=document.integer("jmx_port", -1),
        timestamp_ms=document.digits("timestamp") if "timestamp" in document else 0,
        mark=_mark(document) if "ottla" in document else None,
    )


def parse_endpoint(text: str) -> tuple[str, str, int] | None:
    """Listener, host and port out of ``LISTENER://host:port``, or None if it is nothing of the kind."""
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not (listener and separator and colon and port.removeprefix("-").isdecimal()):
        return None
    return listener, host.removeprefix("[").removesuffix("]"), int(port)


def _endpoint(path: str, text: str, protocols: Mapping[str, str] | None) -> Endpoint:
    parsed = parse_endpoint(text)
    if parsed is None:
        raise ZnodeError(f"{path}: {text!r} must be an endpoint like PLAINTEXT://host:9092")
    listener, host, port = parsed
    # Before version 4 a listener had no name but that of its protocol.
    protocol = listener if protocols is None else protocols.get(listener)
    if protocol is None:
        raise ZnodeError(f"{path}: {text!r} has a listener that listener_security_protocol_map does not know")
    return Endpoint(listener, host, port, protocol)


def _mark(document: Document) -> Mark:
    # A later version may say more, and what it says may be of another kind.
    return Mark(clean=document.document("ottla").values.get("clean") is not False)


def _features(document: Document) -> dict[str, SupportedVersions]:
    features = document.document("features")
    ranges = ((name, features.document(name)) for name in features.values)
    return {name: SupportedVersions(each.integer("min_version"), each.integer("max_version")) for name, each in ranges}
