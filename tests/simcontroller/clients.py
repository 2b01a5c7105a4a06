"""Producers and consumers, which believe what some broker tells them of who leads."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.peers import PeerLostError
from ottla.wire import ErrorCode, Message, in_memory
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.simcontroller.disk import decode, encode
from tests.simcontroller.eras import Era, Place
from tests.simcontroller.network import CLIENT

if TYPE_CHECKING:
    from tests.simcontroller.world import World

ALL = -1
LATEST = -1
_VALUES = 1 << 40


class Led(NamedTuple):
    """A partition, and who leads it in which epoch, as far as somebody knows."""

    where: TopicPartition
    place: Place
    leader: BrokerId
    epoch: int


class Client:
    def __init__(self, world: World) -> None:
        self._world = world
        self._epochs: dict[Place, int] = {}

    async def run(self) -> None:
        rng = self._world.rng
        while self._world.weather.is_bad:
            await asyncio.sleep(rng.random() * 0.2)
            led = self._some_partition()
            if led is not None:
                await self._use(led)

    async def _use(self, led: Led) -> None:
        raise NotImplementedError

    def _some_partition(self) -> Led | None:
        """By the metadata of some broker. A client knows of epochs, and does not go back to an earlier one."""
        world = self._world
        if not world.nodes:
            return None
        image = world.nodes[world.rng.choice(sorted(world.nodes))].cluster.image
        partitions = sorted(image.partitions())
        if not partitions:
            return None
        where = world.rng.choice(partitions)
        state, topic_id = image.state(where), image.topics[where.topic].topic_id
        if state is None or topic_id is None or not state.has_leader:
            return None
        place = Place(topic_id, where.partition)
        if state.leader_epoch < self._epochs.get(place, 0):
            return None
        self._epochs[place] = state.leader_epoch
        return Led(where, place, state.leader, state.leader_epoch)

    async def _call(self, leader: BrokerId, request: Message, version: int) -> Message | None:
        try:
            async with asyncio.timeout(5):
                return await self._world.network.call(CLIENT, leader, request, version)
        except (PeerLostError, TimeoutError):
            return None


class Producer(Client):
    """Sends every number once, and asks for all replicas in sync to have it."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world)
        self._values = count(number * _VALUES)

    async def _use(self, led: Led) -> None:
        await asyncio.gather(*(self._send(led) for _ in range(self._world.rng.choice((1, 1, 2, 5)))))

    async def _send(self, led: Led) -> None:
        truth, value = self._world.truth, next(self._values)
        before = truth.acked_before(led.place)
        data = PartitionProduceData(index=led.where.partition, records=encode(value))
        topic = TopicProduceData(name=led.where.topic, topic_id=led.place.topic_id, partition_data=[data])
        response = await self._call(led.leader, ProduceRequest(acks=ALL, timeout_ms=2000, topic_data=[topic]), 13)
        if response is None:
            return
        assert isinstance(response, ProduceResponse)
        (told,) = response.responses[0].partition_responses
        assert told.error_code != ErrorCode.UNKNOWN_SERVER_ERROR, "L20: an error that says nothing"
        if not told.error_code:
            truth.acknowledged(led, told.base_offset, value, sent_behind=before)


class Consumer(Client):
    """Reads every partition from its beginning, and asks where it ends; both anew after an unclean election."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._positions: dict[Era, int] = {}
        self._latest: dict[Era, int] = {}

    async def _use(self, led: Led) -> None:
        if self._world.rng.random() < 0.3:
            await self._ask_latest(led)
        else:
            await self._fetch(led)

    async def _fetch(self, led: Led) -> None:
        era = self._world.truth.eras.at(led.place, led.epoch)
        position = self._positions.get(era, 0)
        wanted = FetchPartition(
            partition=led.where.partition,
            current_leader_epoch=led.epoch,
            fetch_offset=position,
            partition_max_bytes=1 << 10,
        )
        topic = FetchTopic(topic_id=led.place.topic_id, partitions=[wanted])
        request = FetchRequest(max_wait_ms=100, min_bytes=1, session_epoch=-1, topics=[topic])
        response = await self._call(led.leader, request, 17)
        if response is None:
            return
        assert isinstance(response, FetchResponse)
        (told,) = response.responses[0].partitions
        assert told.error_code != ErrorCode.OFFSET_OUT_OF_RANGE, f"L6: {led} does not know of {position}"
        for offset, record in decode(bytes(in_memory(told.records or b""))):
            assert offset == position, f"{led}: {offset} was read behind {position}"
            self._world.truth.read(era, offset, record)
            position += 1
        self._positions[era] = position

    async def _ask_latest(self, led: Led) -> None:
        topic = led.where.topic
        if topic in self._world.ensemble.deleted_topics:
            return  # by its name, it may be another topic's
        wanted = ListOffsetsPartition(
            partition_index=led.where.partition, current_leader_epoch=led.epoch, timestamp=LATEST
        )
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        response = await self._call(led.leader, request, 7)
        if response is None or topic in self._world.ensemble.deleted_topics:
            return
        assert isinstance(response, ListOffsetsResponse)
        (told,) = response.topics[0].partitions
        if not told.error_code:
            era = self._world.truth.eras.at(led.place, led.epoch)
            latest = self._latest.get(era, 0)
            assert told.offset >= latest, f"L6: {led}: the end was {latest}, and is {told.offset}"
            self._latest[era] = told.offset
