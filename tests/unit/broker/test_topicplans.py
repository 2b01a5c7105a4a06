"""What becomes of a wish for a topic: where Kafka 3.9 would make one that nobody can use, and what no comparison asks."""

from __future__ import annotations

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.topicplans import PARTITIONS_MAX, NewTopic, TopicError, on_demand, plan_partitions, plan_topic
from ottla.metadata import BrokerId, BrokerRegistration, Image, LiveBroker, ReplicaAssignment, Topic
from ottla.wire import ErrorCode

CONFIG = BrokerConfig({"broker.id": "1", "zookeeper.connect": "nowhere", "listeners": "PLAINTEXT://127.0.0.1:0"})
BROKERS = {
    BrokerId(number): LiveBroker(BrokerRegistration(BrokerId(number), (), rack=f"r{number % 2}"), 1)
    for number in (1, 2, 3)
}
IMAGE = Image(brokers=BROKERS)


def replicas(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def refused(topic: NewTopic, image: Image = IMAGE) -> ErrorCode:
    with pytest.raises(TopicError) as caught:
        plan_topic(topic, image, CONFIG)
    return caught.value.code


def test_replicas_are_spread_over_live_brokers_and_racks() -> None:
    placed = plan_topic(NewTopic("t", 6, 2), IMAGE, CONFIG).partitions
    assert sorted(placed) == list(range(6))
    for assignment in placed.values():
        assert len({broker % 2 for broker in assignment.replicas}) == 2


@pytest.mark.parametrize(
    "assignments",
    [
        {0: replicas(1, 9)},  # a broker that does not exist
        {0: replicas()},
        {0: replicas(1, 1)},
        {0: replicas(1), 1: replicas(1, 2)},
        {0: replicas(1), 2: replicas(1)},
        {-1: replicas(1), 0: replicas(1)},
    ],
)
def test_assignments_that_cannot_be(assignments: dict[int, tuple[BrokerId, ...]]) -> None:
    assert refused(NewTopic("t", assignments=assignments)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_number_of_partitions_that_would_cost_all_memory_is_refused_before_it_does() -> None:
    assert refused(NewTopic("t", PARTITIONS_MAX + 1, 1)) == ErrorCode.INVALID_PARTITIONS
    assert refused(NewTopic("t", 2**31 - 1, 1)) == ErrorCode.INVALID_PARTITIONS
    topic = Topic("t", None, {0: ReplicaAssignment(replicas(1))})
    with pytest.raises(TopicError, match="up to"):
        plan_partitions(topic, 2**31 - 1, None, IMAGE)


def test_two_names_that_metrics_could_not_tell_apart_are_not_made_together() -> None:
    with pytest.raises(TopicError, match="collides"):
        plan_topic(NewTopic("a_b", 1, 1), IMAGE, CONFIG, coming=["a.b"])


def test_without_brokers_nothing_is_placed() -> None:
    assert refused(NewTopic("t", 1, 1), Image()) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_new_partitions_leave_the_old_ones_where_they_are() -> None:
    old = {0: ReplicaAssignment(replicas(2, 3)), 1: ReplicaAssignment(replicas(3, 1))}
    grown = plan_partitions(Topic("t", None, old), 5, None, IMAGE).partitions
    assert {number: grown[number] for number in old} == old
    assert sorted(grown) == list(range(5))
    assert all(len(set(grown[number].replicas)) == 2 for number in (2, 3, 4))


def test_no_partitions_are_added_while_others_move() -> None:
    moving = ReplicaAssignment(replicas(1, 2), adding=replicas(2))
    with pytest.raises(TopicError) as caught:
        plan_partitions(Topic("t", None, {0: moving}), 2, None, IMAGE)
    assert caught.value.code == ErrorCode.REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize(
    ("name", "partitions", "policy"),
    [("__consumer_offsets", 50, "compact"), ("__transaction_state", 50, "compact"), ("t", -1, None)],
)
def test_topics_that_brokers_keep_their_state_in_are_made_for_that(
    name: str, partitions: int, policy: str | None
) -> None:
    made = on_demand(name, CONFIG)
    assert (made.partitions, made.configs.get("cleanup.policy")) == (partitions, policy)
