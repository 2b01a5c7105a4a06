"""Records sent, whole and spoiled, by producers that number their batches and by others."""

from __future__ import annotations

import time
from typing import Final

from ottla.records import Codec, Record
from ottla.wire import ZERO_UUID, ApiKey, Message
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.compat.batches import CODECS, FIRST_MS, SPOILED, Batch, records
from tests.compat.brokerpair import Side, Step
from tests.compat.requests.drawing import ROLLED
from tests.compat.requests.reading import Reading

UNPACKED: Final = ("bytes behind the records",)
"""Only sent without compression: what lies behind the end of packed data is ignored by Java's decompressors, not by ours."""
SPOILING_ALL: Final = ("length too small", "length negative", "magic 3", "negative magic", "unknown codec")
"""Sent alone: Kafka answers for all partitions of a request what is wrong with the frames of one, ours for each its own."""
STAMPED: Final = "log append time flag"
_PRODUCE_BY_ID: Final = 13


class Producing(Reading):
    def _init_producer(self) -> Step:
        draw = self._draw
        kind = draw.randrange(10)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=draw.choice((0, 60_000)))
        least = 0
        match kind:
            case 0:
                request.transactional_id = ""
            case 1:
                request.transactional_id = "transactions"
            case 2:
                request.producer_id, least = 5, 3
        return self._step(ApiKey.INIT_PRODUCER_ID, f"{request}", lambda _side, _version: request, least=least)

    def _batch(self, name: str, number: int) -> Batch:
        draw = self._draw
        now_ms = int(time.time() * 1000) if draw.random() < 0.1 else FIRST_MS
        made = records(draw, large=draw.random() < 0.1, now_ms=now_ms, keyless=draw.random() < 0.05)
        codec = draw.choice(CODECS) if draw.random() < 0.5 else CODECS[0]
        chance = draw.random()
        if chance < 0.35 or (name == ROLLED and chance > 0.5):
            return Batch("plain", made, codec)
        if chance < 0.5:
            what = draw.choice(list(SPOILED))
            if what == STAMPED and name in self._packed:
                return Batch("plain", made, codec)
            return Batch(what, made, CODECS[0] if what in UNPACKED else codec, spoil=SPOILED[what])
        return self._idempotent(name, number, records(draw)[:3], codec)

    def _idempotent(self, name: str, number: int, made: list[Record], codec: Codec) -> Batch:
        draw = self._draw
        producer, epoch = draw.randrange(3), draw.choice((0, 0, 0, 0, 0, 1))
        place = (producer, epoch, name, number)
        following = self._sequences.get(place, 0)
        kind = draw.choice(("next",) * 7 + ("again", "again", "long ago", "gap", "wrap", "low epoch", "other length"))
        sequence = following
        match kind:
            case "again":
                sequence = max(0, following - draw.randint(1, 4))
            case "long ago":
                sequence = max(0, following - draw.randint(5, 12))
            case "gap":
                sequence = following + draw.randint(1, 3)
            case "wrap":
                sequence = 2**31 - draw.randint(1, 3)
            case "low epoch":
                epoch = 0
        if kind == "next":
            self._sequences[place] = following + len(made)
        return Batch(f"producer {producer} {kind}", made, codec, producer, epoch, sequence)

    def _produce(self) -> Step:
        draw = self._draw
        where = self._where(2)
        batches = {name: [(number, self._batch(name, number)) for number in numbers] for name, numbers in where.items()}
        alone = [(name, one) for name, each in batches.items() for one in each if one[1].what in SPOILING_ALL]
        if alone:
            batches = {alone[0][0]: [alone[0][1]]}
        acks = draw.choice((-1, -1, -1, 1, 1, 1, 0, 2))
        if any(batch.spoil for each in batches.values() for _, batch in each):
            acks = min(acks, 1)  # which of two mistakes is told is anybody's choice
        told = {
            name: [(number, batch.what, batch.codec.name, batch.epoch, batch.sequence) for number, batch in each]
            for name, each in batches.items()
        }

        def make(side: Side, version: int) -> Message:
            return ProduceRequest(
                transactional_id=None,
                acks=acks,
                timeout_ms=5000,
                topic_data=[
                    TopicProduceData(
                        name=name if version < _PRODUCE_BY_ID else "",
                        topic_id=side.topic_id(name) if version >= _PRODUCE_BY_ID else ZERO_UUID,
                        partition_data=[
                            PartitionProduceData(
                                index=number, records=batch.bytes_for(side.producer(batch.producer or 0))
                            )
                            for number, batch in each
                        ],
                    )
                    for name, each in batches.items()
                ],
            )

        step = self._step(ApiKey.PRODUCE, f"{acks=} {told}", make)
        if acks == 0:
            step.silent = True
            step.meanwhile = self._list_offsets()
        return step
