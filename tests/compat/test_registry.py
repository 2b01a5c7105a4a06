"""The registry does the same on our keeper, on Apache ZooKeeper, and on the twin in memory that other tests build on."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, TypeVar

import pytest
from kazoo.client import KazooClient

from ottla.keeper import Keeper
from ottla.metadata import BrokerId, BrokerRegistration, LeaderAndIsr, ReplicaAssignment, TopicId, TopicPartition
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.brokers import Endpoint
from ottla.metadata.znodes.cluster import FinalizedFeatures, ProducerIdBlock
from ottla.metadata.znodes.configs import ConfigClient, ConfigEntity, broker_entity, topic_entity
from ottla.metadata.znodes.orders import encode_partitions, encode_reassignment
from ottla.metadata.znodes.topics import TopicAssignment
from ottla.registry import (
    BadVersionError,
    ChildrenChanged,
    ConnectionLossError,
    ControllerMovedError,
    DataChanged,
    KazooStore,
    NodeExistsError,
    NoNodeError,
    Registry,
    SessionChanged,
    SessionState,
)
from ottla.registry.store import Check, Create, Delete, Event, Operation, Result, SetData
from tests.peers import RealZooKeeper
from tests.peers.memorystore import MemoryEnsemble, MemoryStore
from tests.peers.proxy import Proxy

T = TypeVar("T")
ONE, TWO = BrokerId(1), BrokerId(2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC = TopicAssignment(TopicId(b"0123456789abcdef"), {0: ReplicaAssignment((ONE, TWO)), 1: ReplicaAssignment((TWO,))})
_chroots = count()


Store = KazooStore | MemoryStore
Port = int | None
"""Of a real ensemble; None for the twin."""


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Port]]:
    with Keeper() as keeper, RealZooKeeper(1, tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        yield {"memory": None, "keeper": keeper.port, "zookeeper": zookeeper.client_ports[0]}


@pytest.fixture(params=["memory", "keeper", "zookeeper"])
def port(request: pytest.FixtureRequest, ports: dict[str, Port]) -> Port:
    return ports[request.param]


@pytest.fixture(params=["keeper", "zookeeper"])
def real_port(request: pytest.FixtureRequest, ports: dict[str, Port]) -> Port:
    return ports[request.param]


class Stage:
    """Stores on one fresh tree, opened as they are asked for."""

    def __init__(self, port: Port, stack: AsyncExitStack) -> None:
        self.port = port
        self.chroot = f"/test/{time.time_ns()}-{next(_chroots)}"
        self._memory = MemoryEnsemble()
        self._stack = stack

    async def store(self, address: str | None = None) -> Store:
        if self.port is None:
            return await self._stack.enter_async_context(MemoryStore(self._memory))
        connect = f"{address or f'127.0.0.1:{self.port}'}{self.chroot}"
        return await self._stack.enter_async_context(KazooStore(connect, session_timeout_ms=6000))

    async def registry(self, address: str | None = None) -> Registry:
        registry = Registry(await self.store(address))
        await registry.cluster.make_paths()
        return registry

    async def proxy(self) -> Proxy:
        assert self.port is not None
        return await self._stack.enter_async_context(Proxy(self.port))


def play(port: Port, story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(300), AsyncExitStack() as stack:
            await story(Stage(port, stack))

    asyncio.run(run())


async def until(events: AsyncIterator[Event], wanted: Callable[[Event], bool]) -> Event:
    async for event in events:
        if wanted(event):
            return event
    raise AssertionError("the stream has no end")


def registration(broker_id: BrokerId, port: int = 9092) -> BrokerRegistration:
    return BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", "h", port, "PLAINTEXT"),), rack="r", timestamp_ms=5)


async def expire(store: Store) -> None:
    """Ends the session as the ensemble does: by its id, behind the client's back."""
    if isinstance(store, MemoryStore):
        store.expire()
        return
    session = store._client.client_id
    # The store takes its session back as soon as it can, perhaps before the other one has closed it.
    while store._client.client_id == session:
        client = KazooClient(f"127.0.0.1:{store._client.hosts[0][1]}", client_id=session)
        await asyncio.to_thread(client.start, 60)
        await asyncio.to_thread(client.stop)
        client.close()
        for _ in range(100):
            if store._client.client_id != session:
                break
            await asyncio.sleep(0.02)


async def elected(registry: Registry, broker_id: BrokerId = ONE) -> ControllerEpoch:
    epoch = await registry.controllers.elect(broker_id, timestamp_ms=7)
    assert epoch is not None
    return epoch


def test_nodes_are_written_and_read_below_a_chroot_that_makes_itself(port: Port) -> None:
    async def story(stage: Stage) -> None:
        store = await stage.store()
        assert await store.get("/a") is None
        assert await store.children("/a") is None
        assert await store.create("/a", b"1") == "/a"
        assert await store.create("/a/n-", sequential=True) == "/a/n-0000000000"
        with pytest.raises(NodeExistsError):
            await store.create("/a")
        with pytest.raises(NoNodeError):
            await store.create("/missing/a")
        stat = await store.set("/a", b"2", version=0)
        assert stat.version == 1
        with pytest.raises(BadVersionError):
            await store.set("/a", b"3", version=0)
        found = await store.get("/a")
        assert found is not None
        assert (found.data, found.stat.czxid < found.stat.mzxid) == (b"2", True)
        assert await store.children("/a") == ("n-0000000000",)
        await store.delete("/a/n-0000000000")
        await store.delete("/a", version=1)
        with pytest.raises(NoNodeError):
            await store.delete("/a")

    play(port, story)


def test_a_multi_is_done_as_a_whole_and_says_what_kept_it(port: Port) -> None:
    async def story(stage: Stage) -> None:
        store = await stage.store()
        made = await store.multi([Create("/a"), Create("/a/s-", sequential=True), SetData("/a", b"x"), Check("/a", 1)])
        assert made[:2] == ["/a", "/a/s-0000000000"]
        with pytest.raises(BadVersionError) as refused:
            await store.multi([Create("/b"), Check("/a", 5), Delete("/a")])
        assert refused.value.operation == 1
        assert await store.get("/b") is None
        outcomes = await store.multi_many([[Create(f"/n{n % 300}")] for n in range(500)])
        assert sum(isinstance(outcome, NodeExistsError) for outcome in outcomes) == 200

    play(port, story)


@pytest.mark.alone
def test_thousands_of_reads_do_not_cost_a_round_trip_each(real_port: Port) -> None:
    async def story(stage: Stage) -> None:
        store = await stage.store()
        await store.multi_many(
            [[Create(f"/n{n}", b"%d" % n) for n in range(first, first + 500)] for first in range(0, 2000, 500)]
        )
        paths_ = [f"/n{n}" for n in range(2001)]
        together, alone = [], []
        for _ in range(5):  # the best of each counts: at times somebody else has the processor
            started = time.monotonic()
            found = await store.get_many(paths_)
            together.append(time.monotonic() - started)
            assert [znode and znode.data for znode in found] == [*(b"%d" % n for n in range(2000)), None]
            started = time.monotonic()
            for path in paths_[:100]:
                await store.get(path)
            alone.append((time.monotonic() - started) * 20)
        assert min(together) < min(alone) / 3

    play(real_port, story)


def test_no_more_requests_are_under_way_than_were_allowed(real_port: Port) -> None:
    async def run() -> None:
        async with KazooStore(f"127.0.0.1:{real_port}", in_flight_max=2) as store:
            get, under_way, most = store._client.get_async, 0, 0

            def counted(path: str) -> Any:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                answer = get(path)
                answer.rawlink(answered)
                return answer

            def answered(_answer: object) -> None:
                nonlocal under_way
                under_way -= 1

            store._client.get_async = counted
            assert all(await asyncio.gather(*(store.get("/") for _ in range(50))))
            assert most == 2

    asyncio.run(run())


def test_a_broker_registers_and_its_czxid_is_its_epoch(port: Port) -> None:
    async def story(stage: Stage) -> None:
        first, other = await stage.registry(), await stage.registry()
        epoch = await first.brokers.register(registration(ONE))
        live = (await other.brokers.read_all())[ONE]
        assert (live.registration, live.epoch) == (registration(ONE), epoch)
        assert await first.brokers.register(registration(ONE)) == epoch  # an answer that was lost
        with pytest.raises(NodeExistsError, match="another session"):
            await other.brokers.register(registration(ONE), wait_ms=200)
        waiting = asyncio.create_task(other.brokers.register(registration(ONE, 9093), wait_ms=20_000))
        await asyncio.sleep(0.3)
        assert await first.brokers.unregister(ONE, epoch=epoch - 1) is False
        assert await first.brokers.unregister(ONE, epoch=epoch) is True
        later = await waiting
        assert later > epoch
        controller = await elected(first)
        assert await first.brokers.expel(ONE, epoch=epoch, controller=controller) is False
        assert await first.brokers.expel(ONE, epoch=later, controller=controller) is True
        assert await other.brokers.read_all() == {}

    play(port, story)


def test_the_place_of_a_dead_broker_is_taken_and_that_of_a_live_one_is_not(port: Port) -> None:
    async def story(stage: Stage) -> None:
        first, other = await stage.registry(), await stage.registry()
        epoch = await first.brokers.register(registration(ONE))
        asked: list[BrokerRegistration] = []

        def saying(verdict: bool | None) -> Callable[[BrokerRegistration], Awaitable[bool | None]]:
            async def is_alive(registered: BrokerRegistration) -> bool | None:
                asked.append(registered)
                return verdict

            return is_alive

        with pytest.raises(NodeExistsError, match="is in use"):
            await other.brokers.register(registration(ONE, 9093), wait_ms=60_000, is_alive=saying(True))
        with pytest.raises(NodeExistsError, match="another session"):
            await other.brokers.register(registration(ONE, 9093), is_alive=saying(None))
        assert other.brokers.taken_over == set()
        later = await other.brokers.register(registration(ONE, 9093), is_alive=saying(False))
        assert asked == [registration(ONE)] * 3
        assert other.brokers.taken_over == {first.store.session_id}
        live = (await first.brokers.read_all())[ONE]
        assert (live.registration, live.epoch) == (registration(ONE, 9093), later)
        assert later > epoch

    play(port, story)


def test_an_expired_session_takes_its_nodes_along_and_the_next_one_registers_anew(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registry, witness = await stage.registry(), await stage.registry()
        store = registry.store
        assert isinstance(store, Store)
        epoch = await registry.brokers.register(registration(ONE))
        session = store.session_id
        registry.brokers.watch()
        witness.brokers.watch()
        events = store.events()
        await until(events, lambda event: event == ChildrenChanged(paths.BROKER_IDS, ("1",)))
        await expire(store)
        await until(events, lambda event: isinstance(event, SessionChanged) and event.state is SessionState.EXPIRED)
        again = await until(events, lambda event: isinstance(event, SessionChanged))
        assert isinstance(again, SessionChanged)
        assert again.state is SessionState.CONNECTED
        assert again.session_id != session
        await until(events, lambda event: event == ChildrenChanged(paths.BROKER_IDS, ()))
        assert await registry.brokers.register(registration(ONE)) > epoch
        await until(witness.store.events(), lambda event: event == ChildrenChanged(paths.BROKER_IDS, ("1",)))

    play(port, story)


def test_one_controller_an_epoch_and_the_one_before_has_no_say(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registries = [await stage.registry() for _ in range(4)]
        tried = await asyncio.gather(
            *(each.controllers.elect(BrokerId(at), timestamp_ms=7) for at, each in enumerate(registries))
        )
        (winner,) = [at for at, epoch in enumerate(tried) if epoch is not None]
        first, second = registries[winner], registries[winner - 1]
        epoch = tried[winner]
        assert epoch == ControllerEpoch(1, 1)
        current = await second.controllers.current()
        assert current is not None
        assert current.registration.broker_id == winner
        assert await second.controllers.depose(current._replace(czxid=1), epoch) is False
        assert await second.controllers.depose(current, epoch) is True
        assert await second.controllers.elect(TWO, timestamp_ms=8) == ControllerEpoch(2, 2)
        await second.topics.create("t", TOPIC)
        with pytest.raises(ControllerMovedError):
            await first.topics.create_states({T0: LeaderAndIsr(ONE, 0, (ONE,), 1)}, epoch)
        with pytest.raises(ControllerMovedError):
            await first.controllers.resign(epoch)
        await second.controllers.resign(ControllerEpoch(2, 2))
        assert await second.controllers.current() is None

    play(port, story)


def test_who_holds_the_office_is_elected_again_into_the_same_epoch(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registry, other = await stage.registry(), await stage.registry()
        epoch = await elected(registry)
        assert await registry.controllers.elect(ONE, timestamp_ms=8) == epoch
        assert await other.controllers.elect(ONE, timestamp_ms=8) is None, "another session, though the same broker"

    play(port, story)


def test_topics_are_created_led_reassigned_and_deleted(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registry = await stage.registry()
        epoch = await elected(registry)
        await registry.topics.create("t", TOPIC, {"retention.ms": "1"})
        with pytest.raises(NodeExistsError, match="'t' already exists"):
            await registry.topics.create("t", TOPIC)
        state = LeaderAndIsr(ONE, 0, (ONE, TWO), 1)
        made = await registry.topics.create_states({T0: state, T1: state._replace(leader=TWO)}, epoch)
        assert made.done[T0] == state
        again = await registry.topics.create_states({T0: state}, epoch)
        assert isinstance(again.retry[T0], NodeExistsError)
        moved = state.with_leader(TWO, (TWO,), controller_epoch=1)
        updated = await registry.topics.update_states({T0: moved}, epoch)
        assert updated.done[T0] == moved._replace(partition_epoch=1)
        late = await registry.topics.update_states({T0: state, T1: moved}, epoch)
        assert isinstance(late.retry[T0], BadVersionError)
        assert late.done[T1].partition_epoch == 1
        topic = (await registry.topics.read_all())["t"]
        assert topic.assignment == TOPIC
        assert topic.states[0] == updated.done[T0]
        wider = topic._replace(partitions={**topic.partitions, 2: ReplicaAssignment((ONE,))})
        assert (await registry.topics.set_assignment(wider, epoch)).zk_version == 1
        with pytest.raises(BadVersionError):
            await registry.topics.set_assignment(wider, epoch)
        await registry.topics.request_deletion("t")
        await registry.topics.request_deletion("t")
        assert await registry.topics.deletions() == ("t",)
        await registry.topics.delete("t", epoch)
        assert await registry.topics.read_all() == {}
        assert await registry.topics.deletions() == ()
        assert await registry.configs.read(topic_entity("t")) == {}

    play(port, story)


def test_of_many_states_those_that_came_late_do_not_keep_the_others(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registry = await stage.registry()
        epoch = await elected(registry)
        where = [TopicPartition("t", number) for number in range(450)]
        await registry.topics.create(
            "t", TopicAssignment(None, {at.partition: ReplicaAssignment((ONE,)) for at in where})
        )
        state = LeaderAndIsr(ONE, 0, (ONE,), 1)
        made = await registry.topics.create_states(dict.fromkeys(where, state), epoch)
        assert list(made.done) == where
        late = set(where[100:400:150])
        await registry.topics.update_states({at: made.done[at] for at in late}, epoch)
        updated = await registry.topics.update_states(made.done, epoch)
        assert updated.retry.keys() == late
        assert updated.done.keys() == set(where) - late
        assert {state.partition_epoch for state in (await registry.topics.states(where)).values()} == {1}

    play(port, story)


def test_settings_are_announced(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registry = await stage.registry()
        client = ConfigEntity("users", "al ice", ConfigClient("c"))
        for entity in (broker_entity(None), client, topic_entity("t")):
            await registry.configs.write(entity, {"a": entity.kind})
        assert await registry.configs.read_all() == {
            entity: {"a": entity.kind} for entity in (broker_entity(None), client, topic_entity("t"))
        }
        assert await registry.configs.changes(after=0) == {1: client, 2: topic_entity("t")}
        await registry.configs.forget_changes(now_ms=int(time.time() * 1000))
        assert len(await registry.configs.changes()) == 3
        await registry.configs.forget_changes(now_ms=int(time.time() * 1000) + 16 * 60 * 1000)
        assert await registry.configs.changes() == {}

    play(port, story)


def test_producer_ids_are_given_out_once(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registries = [await stage.registry() for _ in range(3)]
        blocks = await asyncio.gather(
            *(each.cluster.allocate_producer_ids(ONE) for each in registries for _ in range(10))
        )
        assert sorted(blocks) == [ProducerIdBlock(ONE, n * 1000, n * 1000 + 999) for n in range(30)]

    play(port, story)


def test_the_first_cluster_id_stays_and_news_are_taken_once(port: Port) -> None:
    async def story(stage: Stage) -> None:
        first, second = await stage.registry(), await stage.registry()
        assert await first.cluster.cluster_id() is None
        ids = await asyncio.gather(first.cluster.cluster_id("A"), second.cluster.cluster_id("B"))
        assert ids[0] == ids[1]
        await first.cluster.make_features(FinalizedFeatures({}))
        await first.orders.announce_isr_change([T0, T1])
        await second.orders.announce_log_dir_failure(TWO)
        epoch = await elected(first)
        assert await first.orders.take_isr_changes(epoch) == {T0, T1}
        assert await first.orders.take_isr_changes(epoch) == set()
        assert await first.orders.take_log_dir_failures(epoch) == {TWO}
        await first.brokers.register(registration(ONE))
        await first.topics.create("t", TOPIC, {"a": "b"})
        image = await second.read_image()
        assert image.cluster_id == ids[0]
        assert image.controller_epoch == epoch
        assert image.is_alive(ONE)
        assert image.topics["t"].assignment == TOPIC
        assert image.topic_config("t") == {"a": "b"}
        assert image.features == FinalizedFeatures({})

    play(port, story)


def test_orders_are_told_and_finished(port: Port) -> None:
    async def story(stage: Stage) -> None:
        registry, tool = await stage.registry(), await stage.store()
        epoch = await elected(registry)
        assert await registry.orders.reassignment() is None
        registry.orders.watch()
        await tool.create(paths.REASSIGN_PARTITIONS, encode_reassignment({T0: (TWO,)}))
        await tool.create(paths.PREFERRED_REPLICA_ELECTION, encode_partitions([T0, T1]))
        await until(registry.store.events(), lambda event: isinstance(event, DataChanged) and event.znode is not None)
        assert await registry.orders.reassignment() == {T0: (TWO,)}
        assert await registry.orders.preferred_election() == (T0, T1)
        for _ in range(2):
            await registry.orders.finish_reassignment(epoch)
            await registry.orders.finish_preferred_election(epoch)
        assert await registry.orders.preferred_election() is None
        assert await registry.cluster.generate_broker_id(reserved_max=1000) == 1001
        assert await registry.cluster.generate_broker_id(reserved_max=1000) == 1002

    play(port, story)


def test_a_storm_of_changes_ends_with_the_last_value(port: Port) -> None:
    async def story(stage: Stage) -> None:
        writer, reader = await stage.store(), await stage.store()
        reader.watch_data("/d")
        reader.watch_children("/")
        events = reader.events()
        assert await until(events, lambda event: isinstance(event, DataChanged)) == DataChanged("/d", None)
        await writer.create("/d", b"0")
        await asyncio.gather(
            *(writer.set("/d", b"%d" % n) for n in range(1, 500)), *(writer.create(f"/c{n}") for n in range(300))
        )
        last = await until(
            events,
            lambda event: isinstance(event, DataChanged) and event.znode is not None and event.znode.data == b"499",
        )
        assert isinstance(last, DataChanged)
        full = tuple(sorted(["d", *(f"c{n}" for n in range(300))]))
        await writer.create("/z")
        await until(events, lambda event: event == ChildrenChanged("/", (*full, "z")))
        # Deleted and created anew with the same content: the same names, and yet news.
        await writer.multi([Delete("/z"), Create("/z")])
        await until(events, lambda event: event == ChildrenChanged("/", (*full, "z")))
        reader.unwatch("/d")
        await writer.set("/d", b"unseen")
        await writer.delete("/z")
        assert await until(events, lambda _: True) == ChildrenChanged("/", full)

    play(port, story)


def test_what_changed_while_the_connection_was_gone_is_told_afterwards(real_port: Port) -> None:
    async def story(stage: Stage) -> None:
        proxy = await stage.proxy()
        reader, writer = await stage.store(proxy.address), await stage.store()
        reader.watch_data("/d")
        events = reader.events()
        await until(events, lambda event: event == DataChanged("/d", None))
        session = reader.session_id
        proxy.refuse = True
        proxy.cut()
        await until(events, lambda event: event == SessionChanged(SessionState.SUSPENDED, session))
        await writer.create("/d", b"news")
        reading = asyncio.create_task(reader.get("/d"))
        await asyncio.sleep(0.1)
        proxy.refuse = False
        found = await reading
        assert found is not None
        assert found.data == b"news"
        told = await until(events, lambda event: isinstance(event, DataChanged))
        assert told == DataChanged("/d", found)
        assert reader.session_id == session

    play(real_port, story)


def xids(frames: bytearray) -> Iterator[int]:
    """Of the answers that are whole."""
    at = 0
    while at + 8 <= len(frames):
        size, xid = struct.unpack_from(">ii", frames, at)
        yield xid
        at += 4 + size


async def without_answer(proxy: Proxy, write: Awaitable[T]) -> T:
    """Lets a write reach the ensemble, loses the answer, and cuts the connection."""
    proxy.swallow = True
    proxy.swallowed.clear()
    task = asyncio.ensure_future(write)
    while not any(xid > 0 for xid in xids(proxy.swallowed)):  # noqa: ASYNC110 - that of a ping is below 0
        await asyncio.sleep(0.005)
    proxy.swallow = False
    proxy.cut()
    return await task


def test_a_write_whose_answer_is_lost_was_done_and_is_found_out_about(real_port: Port) -> None:
    async def story(stage: Stage) -> None:
        proxy = await stage.proxy()
        registry, witness = await stage.registry(proxy.address), await stage.registry()
        with pytest.raises(ConnectionLossError):
            await without_answer(proxy, registry.store.multi([Create("/a")]))
        assert await witness.store.get("/a") is not None
        await registry.store.get("/a")  # connected again
        broker_epoch = await without_answer(proxy, registry.brokers.register(registration(ONE)))
        assert (await witness.brokers.read_all())[ONE].epoch == broker_epoch
        await without_answer(proxy, registry.topics.create("t", TOPIC))
        assert (await witness.topics.read_all())["t"].assignment == TOPIC

    play(real_port, story)


def test_an_election_whose_answer_is_lost_was_won(real_port: Port) -> None:
    async def story(stage: Stage) -> None:
        proxy = await stage.proxy()
        registry, witness = await stage.registry(proxy.address), await stage.registry()
        await (await stage.store()).create(paths.CONTROLLER_EPOCH, b"4")
        reads_then_writes = registry.store.multi

        async def losing(operations: Sequence[Operation]) -> list[Result]:
            return await without_answer(proxy, reads_then_writes(operations))

        registry.store.multi = losing  # type: ignore[method-assign]
        assert await registry.controllers.elect(ONE, timestamp_ms=7) == ControllerEpoch(5, 1)
        assert await witness.controllers.elect(TWO, timestamp_ms=7) is None

    play(real_port, story)


def test_nobody_answers() -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLossError, match="no ensemble answers"):
            async with KazooStore("127.0.0.1:1", connection_timeout_ms=300):
                pass

    asyncio.run(story())
