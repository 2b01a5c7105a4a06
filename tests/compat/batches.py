"""Batches as producers send them, and as they never should: every kind has a name, and bytes for a given producer id."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.records import Codec, Record, build_batch
from ottla.records.batch import BATCH_HEADER, read_header, stamped

FIRST_MS: Final = 1_700_000_000_000
CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class Batch(NamedTuple):
    """A batch still to be made, for the id that the producer has on one side."""

    what: str
    records: list[Record]
    codec: Codec = Codec.NONE
    producer: int | None = None
    epoch: int = 0
    sequence: int = 0
    spoil: Callable[[bytes], bytes] | None = None

    def bytes_for(self, producer_id: int) -> bytes:
        idempotent = self.producer is not None
        data = build_batch(
            self.records,
            codec=self.codec,
            producer_id=producer_id if idempotent else -1,
            producer_epoch=self.epoch if idempotent else -1,
            base_sequence=self.sequence if idempotent else -1,
        )
        return data if self.spoil is None else self.spoil(data)


def records(draw: random.Random, *, keyless: bool = False, large: bool = False, now_ms: int = FIRST_MS) -> list[Record]:
    count = draw.choice((1, 1, 1, 2, 3, 5))
    made = []
    for _ in range(count):
        key = None if keyless or draw.random() < 0.1 else b"k%d" % draw.randrange(20)
        size = draw.choice((300, 900, 3000)) if large else draw.randrange(60)
        value = None if draw.random() < 0.1 else draw.randbytes(size)
        headers = ((b"h", draw.randbytes(3)), (b"null", None)) if draw.random() < 0.3 else ()
        made.append(Record(key, value, now_ms + draw.randrange(-5000, 100_000), headers=headers))
    return made


def _with_header(**changes: int) -> Callable[[bytes], bytes]:
    """Another header in front of the same records, with a checksum that fits."""

    def spoil(data: bytes) -> bytes:
        body = data[BATCH_HEADER.size :]
        header = read_header(data).replace(**changes)
        return stamped(header, body).pack() + body

    return spoil


def _with_flags(flags: int) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        attributes = read_header(data).attributes
        return _with_header(attributes=attributes | flags)(data)

    return spoil


def _with_body(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        header = read_header(data)
        body = change(data[BATCH_HEADER.size :])
        return stamped(header, body).pack() + body

    return spoil


def _flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[: at % len(data)] + bytes([data[at % len(data)] ^ 0x55]) + data[at % len(data) + 1 :]


# Null in place of records is left out: Kafka 3.9 neither answers it nor closes the connection.
SPOILED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "wrong checksum": _flip(17),
    "flipped last byte": _flip(-1),
    "one record too many told": _with_header(record_count=9),
    "no record told": _with_header(record_count=0),
    "negative count told": _with_header(record_count=-3),
    "last offset delta too large": _with_header(last_offset_delta=20),
    "last offset delta negative": _with_header(last_offset_delta=-1),
    "base offset 7": lambda data: struct.pack(">q", 7) + data[8:],
    "leader epoch 9": lambda data: data[:12] + struct.pack(">i", 9) + data[16:],
    "magic 1": lambda data: data[:16] + b"\x01" + data[17:],
    "magic 0": lambda data: data[:16] + b"\x00" + data[17:],
    "magic 3": lambda data: data[:16] + b"\x03" + data[17:],
    "negative magic": lambda data: data[:16] + b"\xfe" + data[17:],
    "control flag": _with_flags(0x20),
    "delete horizon flag": _with_flags(0x40),
    "unknown flag": _with_flags(0x80),
    "log append time flag": _with_flags(0x08),
    "unknown codec": _with_flags(0x07),
    "length too small": lambda data: data[:8] + struct.pack(">i", 5) + data[12:],
    "length negative": lambda data: data[:8] + struct.pack(">i", -5) + data[12:],
    "length beyond the end": lambda data: data[:8] + struct.pack(">i", len(data)) + data[12:],
    "cut in the header": lambda data: data[:40],
    "cut in the records": lambda data: data[:-3],
    "ten bytes": lambda data: data[:10],
    "nothing": lambda _data: b"",
    "two batches": lambda data: data + data,
    "bytes behind it": lambda data: data + b"\0" * 9,
    "batch and half of one": lambda data: data + data[:-5],
    "garbage for records": _with_body(lambda body: bytes(len(body))),
    "records cut": _with_body(lambda body: body[:-2]),
    "bytes behind the records": _with_body(lambda body: body + b"\x01\x02"),
    "sequence without id": _with_header(base_sequence=4),
    "epoch without id": _with_header(producer_epoch=1),
    "max timestamp too small": _with_header(max_timestamp=5),
}
