"""The Kafka protocol as data: message table, compiled codecs, headers, error codes. Pure.

    messages.txt ──► table ──► reading, writing ──► codec      compiled when a message is first met in a version
         │                                            ▲
         └─ scripts/wire_messages.py ─► messages/     │        one class a message, for all its versions
                                                    frames     headers around it

Who receives a frame asks ``parse_request_header`` what it is, looks the key up in ``APIS``, and reads the body with a
``decoder``; who answers keeps a ``response_framer``. The budget, measured by ``bench/wire.py``: a few microseconds for a
request and its response, whatever the size of their records.
"""

from ottla.wire.apis import APIS, Api, message_class, offers
from ottla.wire.codec import decode, decoder, encode, encode_parts, encoder
from ottla.wire.errors import DecodeError, EncodeError, ErrorCode
from ottla.wire.frames import parse_request_header, parse_response_header, request_framer, response_framer
from ottla.wire.keys import ApiKey
from ottla.wire.message import ZERO_UUID, Buffer, Message, Part, in_memory

__all__ = [
    "APIS",
    "ZERO_UUID",
    "Api",
    "ApiKey",
    "Buffer",
    "DecodeError",
    "EncodeError",
    "ErrorCode",
    "Message",
    "Part",
    "decode",
    "decoder",
    "encode",
    "encode_parts",
    "encoder",
    "in_memory",
    "message_class",
    "offers",
    "parse_request_header",
    "parse_response_header",
    "request_framer",
    "response_framer",
]
