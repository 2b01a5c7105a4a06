"""Messages to bytes and back.

A codec is compiled from the message table when a message is first met in a version (``reading``, ``writing``). Versions
that look the same on the wire share one function, for the source text of both is the same. A dispatcher asks once for
``decoder`` and ``encoder`` and keeps what it gets; ``decode`` and ``encode`` are for all who are in no hurry. Requests that
come by the thousand have a second, typed decoder in front of that (``typed``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from struct import error as struct_error
from struct import pack, unpack_from
from typing import Any, TypeVar

from ottla.wire import primitives, table
from ottla.wire.errors import DecodeError, EncodeError
from ottla.wire.message import ZERO_UUID, Buffer, Message
from ottla.wire.reading import decoder_source
from ottla.wire.source import compiled
from ottla.wire.writing import encoder_source

M = TypeVar("M", bound=Message)

Decoder = Callable[..., M]
"""Called with a buffer and, if that is not 0, the position to begin at."""

Encoder = Callable[[M, bytearray], list[Buffer]]
"""Called with a message and what it is to be appended to; gives the parts, of which the first is that."""

_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}
_encoders: dict[tuple[type[Message], int], Encoder[Any]] = {}
_shapes: dict[tuple[type[Message], str], Any] = {}


def decode(cls: type[M], version: int, buffer: Buffer, pos: int = 0) -> M:
    """Raises DecodeError on bytes that are no such message. What follows its last field is ignored, as Kafka does.

    Records are views into the buffer if it is ``bytes``; other buffers are copied.
    """
    made: M = decoder(cls, version)(buffer, pos)
    return made


def encode(message: Message, version: int) -> bytes:
    """Raises EncodeError on what the version cannot carry."""
    return b"".join(encoder(type(message), version)(message, bytearray()))


def encode_parts(message: Message, version: int) -> list[Buffer]:
    """As ``encode``, with large records as parts of their own, uncopied."""
    return encoder(type(message), version)(message, bytearray())


def decoder(cls: type[M], version: int) -> Decoder[M]:
    found = _decoders.get((cls, version))
    if found is None:
        found = _decoders[cls, version] = _quickest(cls, version)
    return found


def _quickest(cls: type[M], version: int) -> Decoder[M]:
    of_the_table: Decoder[Any] = decoder_of_the_table(cls, version)
    typed: Decoder[Any] | None = None
    if cls.__name__ == "ProduceRequest":
        from ottla.wire import produce

        typed = produce.ProduceDecoder(version, of_the_table) if version >= produce.FROM else None
    elif cls.__name__ == "FetchRequest":
        from ottla.wire import fetch

        typed = fetch.FetchDecoder(version, of_the_table) if version >= fetch.FROM else None
    elif cls.__name__ == "FetchResponse":
        from ottla.wire import fetchclient

        typed = fetchclient.FetchResponseDecoder(of_the_table) if version >= fetchclient.READ_FROM else None
    return typed or of_the_table


def decoder_of_the_table(cls: type[M], version: int) -> Decoder[M]:
    made: Decoder[M] = _compile(cls, version, decoder_source, DecodeError)
    return made


def encoder(cls: type[M], version: int) -> Encoder[M]:
    found = _encoders.get((cls, version))
    if found is None:
        found = _encoders[cls, version] = _compile(cls, version, encoder_source, EncodeError)
    return found


def _compile(
    cls: type[Message],
    version: int,
    write: Callable[[table.Schema, int, dict[str, Any]], str],
    error: type[Exception],
) -> Any:
    schema = table.schema(cls.__name__)
    if version not in schema.versions:
        raise error(f"{schema.name} has no version {version}")
    names = _names(cls, schema)
    text = write(schema, version, names)
    function = _shapes.get((cls, text))
    if function is None:
        title = f"{schema.name} {'decoder' if error is DecodeError else 'encoder'}, first met in version {version}"
        function = _shapes[cls, text] = compiled(text, text[4 : text.index("(")], names, title)
    return function


def _names(cls: type[Message], schema: table.Schema) -> dict[str, Any]:
    """What generated code may refer to: the classes it makes and the functions it calls."""
    module = vars(sys.modules[cls.__module__])
    classes = {name: module[name] for name in (schema.name, *schema.structs)}
    return {
        **classes,
        **{f"new_{name}": each.__new__ for name, each in classes.items()},
        **vars(primitives),
        "pack": pack,
        "unpack_from": unpack_from,
        "StructError": struct_error,
        "DecodeError": DecodeError,
        "EncodeError": EncodeError,
        "ZERO_UUID": ZERO_UUID,
    }
