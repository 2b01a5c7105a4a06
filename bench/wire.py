"""The codec beside kio's, same machine, same run: ``python -m bench.wire``.

Each line is one message of a broker's daily work in the version that clients use now. The best of several rounds
counts, in microseconds a message. Records are 16 KB.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

from ottla import wire
from ottla.wire.messages import k00_produce, k01_fetch
from tests.peers.pythons import packages

RECORDS = bytes(16384)
ROUNDS, TIMES = 7, 4000


def produce_request(partitions: int) -> wire.Message:
    data = [k00_produce.PartitionProduceData(index=index, records=RECORDS) for index in range(partitions)]
    return k00_produce.ProduceRequest(
        acks=-1, timeout_ms=30000, topic_data=[k00_produce.TopicProduceData(name="page-views", partition_data=data)]
    )


def produce_response(partitions: int) -> wire.Message:
    data = [k00_produce.PartitionProduceResponse(index=index, base_offset=1 << 33) for index in range(partitions)]
    return k00_produce.ProduceResponse(
        responses=[k00_produce.TopicProduceResponse(name="page-views", partition_responses=data)]
    )


def fetch_request(partitions: int) -> wire.Message:
    data = [k01_fetch.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(partitions)]
    return k01_fetch.FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[k01_fetch.FetchTopic(topic_id=bytes(range(16)), partitions=data)]
    )


def fetch_response(partitions: int) -> wire.Message:
    data = [
        k01_fetch.PartitionData(partition_index=index, high_watermark=1 << 33, records=RECORDS)
        for index in range(partitions)
    ]
    return k01_fetch.FetchResponse(
        responses=[k01_fetch.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=data)]
    )


CASES: tuple[tuple[str, Callable[[int], wire.Message], int], ...] = (
    ("produce.v9.request.ProduceRequest", produce_request, 9),
    ("produce.v9.response.ProduceResponse", produce_response, 9),
    ("fetch.v13.request.FetchRequest", fetch_request, 13),
    ("fetch.v13.response.FetchResponse", fetch_response, 13),
)


def best_us(call: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(times):
            call()
        found.append((time.perf_counter() - begun) / times)
    return min(found) * 1e6


def kio_codec(path: str, frame: bytes) -> tuple[Callable[[], object], Callable[[], object]]:
    from importlib import import_module

    from kio.serial import entity_reader, entity_writer

    module, _, name = path.rpartition(".")
    cls = getattr(import_module(f"kio.schema.{module}"), name)
    read, write = entity_reader(cls), entity_writer(cls)
    value, _size = read(frame, 0)
    return lambda: read(frame, 0), lambda: write(io.BytesIO(), value)


def main() -> None:
    sys.path.append(str(packages("kio-0.6.5")))
    print(f"{'us a message':36} {'decode':>8} {'kio':>8} {'encode':>8} {'kio':>8}")
    for path, make, version in CASES:
        for partitions in (1, 100):
            message = make(partitions)
            frame = wire.encode(message, version)
            decode, encode = wire.decoder(type(message), version), wire.encoder(type(message), version)
            kio_decode, kio_encode = kio_codec(path, frame)
            times = TIMES // partitions
            calls = (lambda: decode(frame), kio_decode, lambda: encode(message, bytearray()), kio_encode)  # noqa: B023
            measured = [best_us(call, times) for call in calls]
            title = f"{type(message).__name__} v{version}, {partitions} partitions"
            print(f"{title:36} " + " ".join(f"{us:8.2f}" for us in measured))


if __name__ == "__main__":
    main()
