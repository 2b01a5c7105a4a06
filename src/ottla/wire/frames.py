"""Headers, and whole frames with their length before them.

    request   int32 length | int16 key | int16 version | int32 correlation id | nullable string client id | tags | body
    response  int32 length | int32 correlation id | tags | body

Tags are there in flexible versions only, with two exceptions: a response to ApiVersions never has them, so that a
client can read it before it knows the broker (KIP-511), and a ControlledShutdown request of version 0 has no client id
either. The client id keeps the old encoding in every version. What ``net`` hands over has lost its length already.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any, Final

from librt.strings import read_i16_be, read_i32_be

from ottla.wire.codec import M, encoder
from ottla.wire.errors import DecodeError
from ottla.wire.keys import FACTS, ApiKey
from ottla.wire.message import Buffer, Part
from ottla.wire.primitives import overrun, skip_tags
from ottla.wire.table import schema

_REQUEST_START: Final = Struct(">ihhi")
"""Length of the frame, key, version, correlation id."""
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")

# Numbers, not members of an enumeration, for every request passes by here.
_CONTROLLED_SHUTDOWN: Final = int(ApiKey.CONTROLLED_SHUTDOWN)
_FLEXIBLE_FROM: Final = {int(key): facts[-1] for key, facts in FACTS.items()}
_NEVER: Final = 1 << 16


def is_flexible(key: int, version: int) -> bool:
    """Whether the version has tagged fields (KIP-482). An unknown key has none that anybody could know of."""
    return version >= _FLEXIBLE_FROM.get(key, _NEVER)


def parse_request_header(frame: bytes) -> tuple[int, int, int, str | None, int]:
    """Key, version, correlation id, client id and where the body begins. The key and the version may be unknown."""
    try:
        key: int = read_i16_be(frame, 0)
        version: int = read_i16_be(frame, 2)
        correlation_id: int = read_i32_be(frame, 4)
        if version == 0 and key == _CONTROLLED_SHUTDOWN:
            return key, version, correlation_id, None, 8
        size: int = read_i16_be(frame, 8)
        pos = 10
        client_id: str | None = None
        if size >= 0:
            if size > len(frame) - pos:
                raise overrun("the client id", size, len(frame) - pos)
            client_id = frame[pos : pos + size].decode("utf-8", "replace")
            pos += size
        elif size != -1:
            raise overrun("the client id", size, len(frame) - pos)
        if version >= _FLEXIBLE_FROM.get(key, _NEVER):
            pos = skip_tags(frame, pos + 1, frame[pos])
    except IndexError as error:
        raise DecodeError("a frame that ends inside its header") from error
    return key, version, correlation_id, client_id, pos


def parse_response_header(key: int, version: int, frame: Buffer) -> tuple[int, int]:
    """Correlation id, and where the body begins. The key and the version are those of the request."""
    try:
        (correlation_id,) = _INT.unpack_from(frame)
        pos = 4
        if is_flexible(key, version) and key != ApiKey.API_VERSIONS:
            pos = skip_tags(frame, pos + 1, frame[pos])
    except (struct_error, IndexError) as error:
        raise DecodeError("a frame that ends inside its header") from error
    return correlation_id, pos


def response_framer(cls: type[M], version: int) -> Callable[[M, int], list[Part]]:
    """A function from a response and its correlation id to the parts of its frame. A dispatcher keeps it."""
    of_the_table: Callable[[Any, int], list[Part]] = response_framer_of_the_table(cls, version)
    typed: Callable[[Any, int], list[Part]] | None = None
    if cls.__name__ == "ProduceResponse":
        from ottla.wire import produce

        typed = produce.ProduceFramer(version, of_the_table) if version >= produce.FROM else None
    elif cls.__name__ == "FetchResponse":
        from ottla.wire import fetch

        typed = fetch.FetchFramer(version, of_the_table) if version >= fetch.FROM else None
    elif cls.__name__ == "OffsetFetchResponse":
        from ottla.wire import offsetfetch

        typed = offsetfetch.OffsetFetchFramer(version, of_the_table) if version >= offsetfetch.FROM else None
    return typed or of_the_table


def response_framer_of_the_table(cls: type[M], version: int) -> Callable[[M, int], list[Part]]:
    key = schema(cls.__name__).key
    assert key is not None, cls
    has_tags = is_flexible(key, version) and key != ApiKey.API_VERSIONS
    head = Struct(">iix" if has_tags else ">ii").pack
    write = encoder(cls, version)

    def frame(message: M, correlation_id: int) -> list[Part]:
        first = bytearray(head(0, correlation_id))
        parts: list[Part] = [*write(message, first)]  # of which the first is that
        _INT.pack_into(first, 0, sum(map(len, parts)) - 4)
        return parts

    return frame


def request_framer(cls: type[M], version: int, client_id: str | None) -> Callable[[M, int], list[Buffer]]:
    """A function from a request and its correlation id to the parts of its frame. A connection keeps it."""
    of_the_table: Callable[[Any, int], list[Buffer]] = request_framer_of_the_table(cls, version, client_id)
    typed: Callable[[Any, int], list[Buffer]] | None = None
    if cls.__name__ == "FetchRequest":
        from ottla.wire import fetchclient

        if version >= fetchclient.WRITTEN_FROM:
            tail = _header_tail(ApiKey.FETCH, version, client_id)
            typed = fetchclient.FetchRequestFramer(version, tail, of_the_table)
    return typed or of_the_table


def request_framer_of_the_table(cls: type[M], version: int, client_id: str | None) -> Callable[[M, int], list[Buffer]]:
    key = schema(cls.__name__).key
    assert key is not None, cls
    tail = _header_tail(key, version, client_id)
    write = encoder(cls, version)

    def frame(message: M, correlation_id: int) -> list[Buffer]:
        parts = write(message, bytearray(_REQUEST_START.pack(0, key, version, correlation_id) + tail))
        _INT.pack_into(parts[0], 0, sum(map(len, parts)) - 4)
        return parts

    return frame


def _header_tail(key: int, version: int, client_id: str | None) -> bytes:
    """Of a request's header, what follows the correlation id."""
    name = (client_id or "").encode()
    size = -1 if client_id is None else len(name)
    has_client_id = key != _CONTROLLED_SHUTDOWN or version > 0
    return (_SHORT.pack(size) + name if has_client_id else b"") + b"\0" * is_flexible(key, version)
