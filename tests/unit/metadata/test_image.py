from __future__ import annotations

from ottla.metadata import (
    BrokerId,
    BrokerRegistration,
    Image,
    LeaderAndIsr,
    LiveBroker,
    ReplicaAssignment,
    Topic,
    TopicId,
    TopicPartition,
)
from ottla.metadata.znodes.brokers import Endpoint
from ottla.metadata.znodes.configs import broker_entity, topic_entity

ONE, TWO = BrokerId(1), BrokerId(2)
T0 = TopicPartition("t", 0)


def broker(broker_id: BrokerId, epoch: int, rack: str | None = None) -> LiveBroker:
    return LiveBroker(BrokerRegistration(broker_id, (Endpoint("IN", "h", 9092, "PLAINTEXT"),), rack), epoch)


def topic(name: str, topic_id: bytes, *replicas: BrokerId) -> Topic:
    return Topic(name, TopicId(topic_id * 16), {0: ReplicaAssignment(replicas)})


def test_a_derived_image_leaves_the_old_one_as_it_was() -> None:
    empty = Image()
    one = empty.with_broker(broker(ONE, 5)).with_topic(topic("t", b"a", ONE, TWO))
    state = LeaderAndIsr(ONE, 0, (ONE,), 1)
    led = one.with_states({T0: state, TopicPartition("gone", 0): state})
    assert (dict(empty.brokers), dict(empty.topics)) == ({}, {})
    assert one.state(T0) is None
    assert led.state(T0) == state
    assert "gone" not in led.topics
    assert led.brokers is one.brokers


def test_topics_are_found_by_name_and_by_id_also_after_being_created_anew() -> None:
    image = Image().with_topic(topic("t", b"a", ONE))
    again = image.with_topic(topic("t", b"b", TWO)).with_config(topic_entity("t"), {"k": "v"})
    assert again.topic_by_id(TopicId(b"a" * 16)) is None
    found = again.topic_by_id(TopicId(b"b" * 16))
    assert found is not None
    assert found.name == "t"
    gone = again.with_deletions(frozenset({"t"})).without_topic("t")
    assert not gone.topics
    assert not gone.topic_names
    assert not gone.deletions
    assert gone.topic_config("t") == {}


def test_what_brokers_hold_and_lead() -> None:
    image = Image().with_brokers({ONE: broker(ONE, 5, "r")}).with_topics({"t": topic("t", b"a", ONE, TWO)})
    image = image.with_states({T0: LeaderAndIsr(TWO, 3, (TWO,), 1)})
    assert image.offline_replicas(T0) == (TWO,)
    assert list(image.partitions_on(ONE)) == [T0]
    assert list(image.partitions_led_by(TWO)) == [T0]
    assert image.racks() == {ONE: "r"}
    assert image.broker_epoch(ONE) == 5
    assert image.broker_epoch(TWO) is None
    assert image.endpoint(ONE, "IN") == Endpoint("IN", "h", 9092, "PLAINTEXT")
    assert image.endpoint(ONE, "OUT") is None
    assert not image.without_broker(ONE).is_alive(ONE)


def test_settings_of_no_entries_are_forgotten() -> None:
    image = Image().with_config(broker_entity(None), {"a": "1"}).with_config(broker_entity(ONE), {"b": "2"})
    assert image.broker_config(None) == {"a": "1"}
    assert dict(image.with_config(broker_entity(None), {}).configs) == {broker_entity(ONE): {"b": "2"}}
