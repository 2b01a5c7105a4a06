"""What happens while the controller waits for the registry, or for a broker: it loses neither its office nor its way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ottla.metadata import BrokerId, BrokerRegistration, LeaderAndIsr, LiveBroker, ReplicaAssignment
from ottla.metadata.ids import NO_LEADER
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.brokers import Endpoint, Mark
from ottla.metadata.znodes.topics import TopicAssignment, encode_state
from ottla.registry import ChildrenChanged, ConnectionLossError, DataChanged, Registry
from ottla.registry.store import Create, Delete, Operation, SetData
from tests.peers.memorystore import MemoryStore
from tests.peers.processes import free_ports
from tests.unit.controller.stage import ALONE, ID, ONE, T0, THREE, TWO, Stage, play

BOTH = (TWO, THREE)


async def register(registry: Registry, broker_id: BrokerId, mark: Mark | None = None) -> LiveBroker:
    registration = BrokerRegistration(broker_id, (), mark=mark)
    return LiveBroker(registration, await registry.brokers.register(registration))


async def rule(registry: Registry, broker_id: BrokerId) -> None:
    assert await registry.controllers.elect(broker_id, timestamp_ms=1) is not None


async def lose_track(stage: Stage) -> None:
    """A write of which nobody knows whether it was done: the controller begins anew."""

    def lost(operations: Sequence[Operation]) -> None:
        if any(isinstance(each, SetData) and each.path == paths.topic("of old") for each in operations):
            stage.store.before_write = lambda _operations: None
            raise ConnectionLossError("not done")

    stage.store.before_write = lost
    await stage.registry.topics.create("of old", TopicAssignment(None, ALONE.partitions))
    await stage.controller.topics_changed()


def test_one_more_broker_is_found_to_be_gone_while_a_new_controller_settles_in() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as lingering:
            left = Registry(lingering)
            second, third = [await register(left, broker) for broker in BOTH]
            await rule(left, TWO)
            await stage.controller.start()
            stage.controller._gone(second)

            def meanwhile(operations: Sequence[Operation]) -> None:
                if any(isinstance(each, Delete) and each.path == paths.broker(TWO) for each in operations):
                    stage.store.before_write = lambda _operations: None
                    stage.controller._gone(third)

            stage.store.before_write = meanwhile
            await stage.until(lambda: paths.CONTROLLER not in stage.ensemble.nodes)
            await stage.controller.on_event(DataChanged(paths.CONTROLLER, None))
            assert stage.controller.is_active
            await stage.until(lambda: stage.image.brokers.keys() == {ONE})
            assert paths.broker(THREE) not in stage.ensemble.nodes

    play(story, is_elected=False)


def test_a_controller_that_somebody_else_deposed_is_known_to_be_gone_when_its_successor_settles_in() -> None:
    """Or everything would be decided as if it were there, and then once more."""

    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as lingering:
            left = Registry(lingering)
            (port,) = free_ports(1)
            where = (Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT"),)
            await left.brokers.register(BrokerRegistration(TWO, where, mark=Mark(clean=True)))
            await rule(left, TWO)
            await stage.controller.start()
            stage.ensemble.write([Delete(paths.CONTROLLER)], 0)
            await stage.controller.on_event(DataChanged(paths.CONTROLLER, None))
            assert stage.controller.is_active
            assert stage.image.brokers.keys() == {ONE}

    play(story, is_elected=False)


def test_logs_are_compared_by_the_term_that_needs_it_though_another_has_not_ended_yet() -> None:
    """What was asked for one term is not taken for the next: that one asks for itself."""

    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            await two_that_crashed(stage, Registry(other))
            stage.brokers.tells.clear()
            await stage.controller.start()
            await stage.until(lambda: bool(stage.brokers.asked))
            await lose_track(stage)
            stage.brokers.hangs_up = True
            stage.brokers.tells.set()
            await stage.until(lambda: stage.leader() != NO_LEADER)
            assert stage.leader() == THREE

    play(story, is_elected=False)


def test_the_end_of_a_log_that_was_told_before_another_crash_decides_nothing() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            registry = Registry(other)
            await two_that_crashed(stage, registry)
            stage.brokers.tells.clear()
            await stage.controller.start()
            await stage.until(lambda: stage.brokers.asked == [TWO])
            stage.brokers.tells.set()
            stage.brokers.tells.clear()
            await stage.until(lambda: stage.brokers.asked == [TWO, THREE])
            # The second is about to tell as well. It is gone, and back with less, before that is heard.
            stage.brokers.log_ends[THREE] = 3
            stage.ensemble.write([Delete(paths.broker(THREE))], 0)
            await register(registry, THREE, Mark(clean=False))
            await stage.controller.on_event(ChildrenChanged(paths.BROKER_IDS, ("1", "2", "3")))
            stage.brokers.tells.set()
            await stage.until(lambda: stage.leader() != NO_LEADER)
            assert stage.leader() == TWO

    play(story, is_elected=False)


def test_only_the_controller_that_is_gone_is_deposed_and_nobody_who_came_behind() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as first, MemoryStore(stage.ensemble) as next_one:
            second = await register(Registry(first), TWO)
            await register(Registry(next_one), THREE)
            await rule(Registry(first), TWO)
            await stage.controller.start()
            slow = asyncio.Event()
            epoch = stage.registry.controllers.epoch

            async def later() -> object:
                await slow.wait()
                return await epoch()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(stage.registry.controllers, "epoch", later)
                stage.controller._gone(second)
                await asyncio.sleep(0)
                stage.ensemble.write([Delete(paths.CONTROLLER)], 0)
                await rule(Registry(next_one), THREE)
                await stage.controller.on_event(DataChanged(paths.CONTROLLER, None))
            slow.set()
            for _ in range(50):
                await asyncio.sleep(0)
            current = await stage.registry.controllers.current()
            assert current is not None
            assert current.registration.broker_id == THREE

    play(story, is_elected=False)


def test_a_controller_that_is_gone_is_deposed_though_the_first_attempt_was_lost() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as first:
            second = await register(Registry(first), TWO)
            await rule(Registry(first), TWO)
            await stage.controller.start()

            def lost(operations: Sequence[Operation]) -> None:
                if any(isinstance(each, Delete) and each.path == paths.CONTROLLER for each in operations):
                    stage.store.before_write = lambda _operations: None
                    raise ConnectionLossError("not done")

            stage.store.before_write = lost
            stage.controller._gone(second)
            await stage.until(lambda: paths.CONTROLLER not in stage.ensemble.nodes)

    play(story, is_elected=False)


def test_a_topic_that_was_changed_while_it_was_given_an_id_comes_up_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        def faster(operations: Sequence[Operation]) -> None:
            for each in operations:
                if isinstance(each, SetData) and each.path == paths.topic("t"):
                    stage.store.before_write = lambda _operations: None
                    stage.ensemble.write([SetData(each.path, stage.ensemble.nodes[each.path].data)], 0)

        stage.store.before_write = faster
        await stage.registry.topics.create("t", TopicAssignment(None, ALONE.partitions))
        await stage.controller.topics_changed()
        assert stage.leader() == ONE

    play(story)


def test_a_partition_of_which_a_controller_before_has_made_half_is_brought_up() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", ALONE)
        stage.ensemble.write([Create(paths.partitions("t")), Create(paths.partition(T0))], 0)
        await stage.controller.topics_changed()
        assert stage.leader() == ONE

    play(story)


@pytest.mark.parametrize("path", [paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION])
def test_an_order_that_cannot_be_read_costs_nobody_his_office(path: str) -> None:
    async def story(stage: Stage) -> None:
        stage.ensemble.write([Create(path, b"{]")], 0)
        await stage.controller.on_event(DataChanged(path, await stage.store.get(path)))
        await lose_track(stage)
        await stage.registry.topics.create("t", ALONE)
        await stage.controller.topics_changed()
        assert stage.controller.is_active
        assert stage.leader() == ONE

    play(story)


def test_a_topic_that_cannot_be_read_is_left_alone_and_the_others_come_up() -> None:
    async def story(stage: Stage) -> None:
        stage.ensemble.write([Create(paths.topic("broken"), b"{]")], 0)
        await stage.registry.topics.create("t", ALONE)
        await stage.controller.topics_changed()
        assert stage.leader() == ONE
        await lose_track(stage)
        assert stage.image.topics.keys() == {"t", "of old"}

    play(story)


def test_a_state_that_cannot_be_read_is_waited_for_until_somebody_has_mended_it() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", ALONE)
        await stage.controller.topics_changed()
        await stage.registry.store.set(paths.partition_state(T0), b"{]")
        read: list[str] = []
        stage.store.before_read = read.append
        losing = asyncio.ensure_future(lose_track(stage))
        # The names of topics are read again only after the state was, and in vain.
        await stage.until(lambda: paths.partition_state(T0) in read)
        read.clear()
        await stage.until(lambda: paths.topic("t") in read or losing.done())
        assert stage.controller.is_active
        await stage.registry.store.set(paths.partition_state(T0), encode_state(LeaderAndIsr(ONE, 0, (ONE,), 1)))
        await losing
        assert stage.leader() == ONE

    play(story)


async def two_that_crashed(stage: Stage, registry: Registry) -> None:
    """Both were in sync with a partition that nobody leads now."""
    assignment = TopicAssignment(ID, {0: ReplicaAssignment(BOTH)})
    await stage.registry.topics.create("t", assignment)
    state = encode_state(LeaderAndIsr(NO_LEADER, 0, BOTH, 1))
    made = [Create(paths.partitions("t")), Create(paths.partition(T0)), Create(paths.partition_state(T0), state)]
    stage.ensemble.write(made, 0)
    stage.brokers.log_ends = {TWO: 5, THREE: 7}
    for broker in BOTH:
        await register(registry, broker, Mark(clean=False))
