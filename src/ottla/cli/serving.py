"""Whether a server answers as what it is meant to be."""

from __future__ import annotations

import socket

from ottla.cli.plan import Role
from ottla.cli.processes import mode

_CONNECT_S = 1.0
_ANSWER_BYTES_MAX = 1 << 20


def condition(role: Role) -> str | None:
    """What a server says of itself, in a word or two; None while it does not serve."""
    host, port = role.address.host, role.address.port
    return mode(host, port) if role.name == "keeper" else _broker_condition(role.id, host, port)


def is_listening(role: Role) -> bool:
    """Whether anybody takes connections where it is meant to be."""
    try:
        socket.create_connection((role.address.host, role.address.port), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True


def _broker_condition(broker_id: int, host: str, port: int) -> str | None:
    """A broker serves once it is registered and the cluster it knows has a controller."""
    from ottla.wire import DecodeError, decode, request_framer
    from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataResponse

    version = 1
    request = request_framer(MetadataRequest, version, "ottla")(MetadataRequest(topics=[]), 0)
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_S) as connection:
            connection.sendall(b"".join(request))
            size = int.from_bytes(_exactly(connection, 4))
            if not 4 <= size <= _ANSWER_BYTES_MAX:
                return None
            answer = decode(MetadataResponse, version, _exactly(connection, size), 4)
    except (OSError, EOFError, DecodeError):
        return None
    if broker_id not in {broker.node_id for broker in answer.brokers} or answer.controller_id < 0:
        return None
    return "controller" if answer.controller_id == broker_id else "serving"


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = connection.recv(size - len(data))
        if not received:
            raise EOFError
        data += received
    return bytes(data)
