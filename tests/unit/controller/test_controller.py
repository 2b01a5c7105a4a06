"""The controller over a tree in memory: what it writes, whom it tells, and that it stops when another one rules."""

from __future__ import annotations

import pytest

from ottla.metadata import BrokerRegistration, ReplicaAssignment, TopicId
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.topics import TopicAssignment, encode_topic
from ottla.registry import BadVersionError, ChildrenChanged, DataChanged, NoNodeError, Registry
from ottla.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.k05_stop_replica import StopReplicaRequest
from ottla.wire.messages.k06_update_metadata import UpdateMetadataRequest
from tests.peers.memorystore import MemoryStore
from tests.unit.controller.stage import ALONE, ID, ONE, T0, TOPIC, TWO, Stage, play


def test_a_topic_is_brought_up_grown_and_deleted() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", ALONE, {"retention.ms": "5"})
        await stage.controller.topics_changed()
        assert stage.leader() == ONE
        assert stage.image.topic_config("t") == {"retention.ms": "5"}

        topic = stage.image.topics["t"]
        more = {**topic.partitions, 1: ReplicaAssignment((ONE,))}
        await stage.controller.partitions_added(topic._replace(partitions=more))
        assert stage.leader(1) == ONE
        written = (await stage.registry.topics.read(["t"]))["t"]
        assert (written.partitions, set(written.states), written.topic_id) == (more, {0, 1}, ID)

        await stage.registry.topics.request_deletion("t")
        await stage.controller.deletion_asked("t")
        assert stage.image.topics == {}
        await stage.until(lambda: not stage.controller.deleting)
        assert await stage.registry.topics.names() == ()
        assert await stage.registry.topics.deletions() == ()

    play(story)


def test_a_topic_goes_when_its_last_replica_has() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", TOPIC)
        await stage.registry.topics.request_deletion("t")
        await stage.controller.deletion_asked("t")
        assert (stage.image.topics, stage.controller.deleting) == ({}, frozenset())
        assert await stage.registry.topics.names() == ("t",), "broker 2 is away, and holds a replica"

    play(story)


def test_partitions_that_were_planned_on_an_old_topic_are_refused_and_the_new_one_is_known() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", TOPIC)
        await stage.controller.topics_changed()
        old = stage.image.topics["t"]
        await stage.controller.partitions_added(
            old._replace(partitions={**old.partitions, 1: ReplicaAssignment((ONE,))})
        )
        with pytest.raises(BadVersionError):
            await stage.controller.partitions_added(
                old._replace(partitions={**old.partitions, 1: ReplicaAssignment((TWO,))})
            )
        assert stage.image.topics["t"].partitions[1].replicas == (ONE,)

    play(story)


def test_a_topic_that_somebody_tore_out_does_not_cost_the_controller_its_office() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", ALONE)
        await stage.registry.topics.create("u", TopicAssignment(TopicId(b"fedcba9876543210"), ALONE.partitions))
        await stage.controller.topics_changed()
        for path in (paths.partition_state(T0), paths.partition(T0), paths.partitions("t"), paths.topic("t")):
            await stage.registry.store.delete(path)
        with pytest.raises(NoNodeError):
            topic = stage.image.topics["t"]
            more = {**topic.partitions, 1: ReplicaAssignment((ONE,))}
            await stage.controller.partitions_added(topic._replace(partitions=more))
        assert stage.image.topics.keys() == {"u"}
        assert stage.controller.is_active

    play(story)


def test_a_topic_of_old_is_given_an_id() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", TopicAssignment(None, ALONE.partitions))
        await stage.controller.topics_changed()
        given = stage.image.topics["t"].topic_id
        assert given is not None
        assert (await stage.registry.topics.read(["t"]))["t"].topic_id == given
        assert stage.leader() == ONE

    play(story)


def test_partitions_that_a_tool_wrote_itself_are_brought_up() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", ALONE)
        await stage.controller.topics_changed()
        more = TopicAssignment(ID, {**ALONE.partitions, 1: ReplicaAssignment((ONE,))})
        await stage.registry.store.set(paths.topic("t"), encode_topic(more))
        await stage.controller.on_event(DataChanged(paths.topic("t"), await stage.registry.store.get(paths.topic("t"))))
        assert stage.leader(1) == ONE

    play(story)


def test_brokers_that_come_and_go() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            second = Registry(other)
            epoch = await second.brokers.register(BrokerRegistration(TWO, ()))
            await stage.controller.on_event(ChildrenChanged(paths.BROKER_IDS, ("1", "2")))
            await stage.registry.topics.create("t", TopicAssignment(ID, {0: ReplicaAssignment((TWO, ONE))}))
            await stage.controller.topics_changed()
            assert stage.leader() == TWO
            await second.brokers.unregister(TWO, epoch=epoch)
            await stage.controller.on_event(ChildrenChanged(paths.BROKER_IDS, ("1",)))
        assert stage.leader() == ONE
        state = stage.image.topics["t"].states[0]
        assert (state.isr, state.leader_epoch) == ((ONE,), 1)

    play(story)


async def led_by_the_second(stage: Stage, registry: Registry) -> None:
    """One topic, of which both brokers are in sync."""
    await registry.brokers.register(BrokerRegistration(TWO, ()))
    stage.brokers.obedient = {ONE, TWO}
    await stage.controller.on_event(ChildrenChanged(paths.BROKER_IDS, ("1", "2")))
    await stage.registry.topics.create("t", TopicAssignment(ID, {0: ReplicaAssignment((TWO, ONE))}))
    await stage.controller.topics_changed()
    assert (stage.leader(), stage.image.topics["t"].states[0].isr) == (TWO, (TWO, ONE))


def told_offline(stage: Stage) -> list[int]:
    """The offline replicas of t-0, as brokers were told last."""
    told = offline_as_told(stage)
    return told[-1] if told else []


def offline_as_told(stage: Stage) -> list[list[int]]:
    """The same, each time that they were told."""
    orders = [order for order in stage.brokers.orders if isinstance(order, UpdateMetadataRequest)]
    states = [each for order in orders for topic in order.topic_states for each in topic.partition_states]
    return [state.offline_replicas for state in states]


def test_what_was_led_on_a_log_directory_that_failed_is_led_elsewhere() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            second = Registry(other)
            await led_by_the_second(stage, second)
            stage.brokers.without_disk = {TWO}
            await second.orders.announce_log_dir_failure(TWO)
            await stage.controller.on_event(ChildrenChanged(paths.LOG_DIR_EVENTS, ()))
            await stage.until(lambda: stage.leader() == ONE)
            assert stage.image.topics["t"].states[0].isr == (ONE,)
            await stage.until(lambda: told_offline(stage) == [TWO])
            assert await stage.registry.store.children(paths.LOG_DIR_EVENTS) == ()

    play(story)


def test_a_replica_whose_log_is_damaged_is_there_again_once_it_follows_another() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            second = Registry(other)
            await led_by_the_second(stage, second)
            stage.brokers.damaged = {TWO}
            await second.orders.announce_log_dir_failure(TWO)
            await stage.controller.on_event(ChildrenChanged(paths.LOG_DIR_EVENTS, ()))
            await stage.until(lambda: stage.leader() == ONE)
            await stage.until(lambda: [TWO] in offline_as_told(stage) and told_offline(stage) == [])
            stops = [order for order in stage.brokers.orders if isinstance(order, StopReplicaRequest)]
            assert not stops, "it may follow"

    play(story)


def test_a_broker_that_lost_a_log_directory_is_not_told_again_of_a_topic_that_is_deleted() -> None:
    """What it has deleted already would come back."""

    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            second = Registry(other)
            await led_by_the_second(stage, second)
            await stage.registry.topics.create("u", TopicAssignment(TopicId(b"fedcba9876543210"), ALONE.partitions))
            await stage.controller.topics_changed()
            stage.brokers.obedient = {ONE}  # so that the topic stays for a while
            await stage.registry.topics.request_deletion("t")
            await stage.controller.deletion_asked("t")
            stage.brokers.orders.clear()
            await second.orders.announce_log_dir_failure(ONE)
            await stage.controller.on_event(ChildrenChanged(paths.LOG_DIR_EVENTS, ()))
            await stage.until(lambda: any(isinstance(order, LeaderAndIsrRequest) for order in stage.brokers.orders))
            asked = [order for order in stage.brokers.orders if isinstance(order, LeaderAndIsrRequest)]
            assert [topic.topic_name for order in asked for topic in order.topic_states] == ["u"]

    play(story)


def test_a_new_controller_asks_by_itself_which_log_directories_have_failed() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            await led_by_the_second(stage, Registry(other))
            stage.brokers.without_disk = {TWO}
            await stage.controller.session_renewed()
            await stage.until(lambda: stage.leader() == ONE)
            await stage.until(lambda: told_offline(stage) == [TWO])

    play(story)


def test_a_broker_that_registers_with_a_failed_log_directory_leads_nothing_of_it() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            second = Registry(other)
            await led_by_the_second(stage, second)
            other.expire()
            stage.brokers.without_disk = {TWO}
            await second.brokers.register(BrokerRegistration(TWO, ()))
            await stage.controller.on_event(ChildrenChanged(paths.BROKER_IDS, ("1", "2")))
            await stage.until(lambda: told_offline(stage) == [TWO])
            assert stage.leader() == ONE

    play(story)


def test_a_topic_that_may_not_be_deleted_stays_and_the_wish_goes() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", TOPIC)
        await stage.registry.topics.request_deletion("t")
        await stage.controller.deletion_asked("t")
        assert await stage.registry.topics.names() == ("t",)
        assert await stage.registry.topics.deletions() == ()
        assert stage.leader() == ONE

    play(story, may_delete=False)


def test_a_topic_that_is_unmade_before_it_was_heard_of_goes_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        await stage.registry.topics.create("t", ALONE)
        await stage.registry.topics.request_deletion("t")
        await stage.controller.on_event(ChildrenChanged(paths.DELETE_TOPICS, ("t",)))
        await stage.until(lambda: not stage.controller.deleting)
        assert await stage.registry.topics.names() == ()

    play(story)


def test_a_controller_that_was_replaced_writes_nothing_more() -> None:
    async def story(stage: Stage) -> None:
        async with MemoryStore(stage.ensemble) as other:
            second = Registry(other)
            current = await second.controllers.current()
            assert current is not None
            assert await second.controllers.depose_session(current.session_id + 99) is False
            assert await second.controllers.depose_session(current.session_id) is True
            assert await second.controllers.elect(TWO, timestamp_ms=1) is not None
            await second.topics.create("t", TOPIC)
            await stage.controller.topics_changed()
            assert not stage.controller.is_active
            assert (await second.topics.read(["t"]))["t"].states == {}

    play(story)


def test_late_news_of_an_empty_office_do_not_cost_it() -> None:
    """The watch tells what was there when it was set: nobody, and then this controller was elected."""

    async def story(stage: Stage) -> None:
        await stage.controller.on_event(DataChanged(paths.CONTROLLER, None))
        assert stage.controller.is_active
        await stage.registry.topics.create("t", TOPIC)
        await stage.controller.topics_changed()
        assert stage.leader() == ONE

    play(story)


def test_an_empty_office_is_taken() -> None:
    async def story(stage: Stage) -> None:
        current, epoch = await stage.registry.controllers.current(), stage.controller.epoch
        assert current is not None
        assert epoch is not None
        assert await stage.registry.controllers.depose(current, epoch)
        await stage.controller.on_event(DataChanged(paths.CONTROLLER, None))
        assert stage.controller.epoch is not None
        assert stage.controller.epoch.epoch == epoch.epoch + 1

    play(story)


def test_the_features_of_a_new_cluster_are_written() -> None:
    async def story(stage: Stage) -> None:
        assert stage.image.features == await stage.registry.cluster.features()
        assert stage.image.features is not None

    play(story)
