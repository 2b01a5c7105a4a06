"""Orders: what each broker is told, in which order, and what may be merged while it does not listen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ottla.controller.machine.orders import DELETING, OF_EVERYTHING, VERSIONS, Batch, Orders, Sender
from ottla.controller.machine.situation import Situation
from ottla.metadata import (
    BrokerId,
    BrokerRegistration,
    Image,
    LeaderAndIsr,
    LiveBroker,
    ReplicaAssignment,
    Topic,
    TopicId,
)
from ottla.metadata.ids import TopicPartition
from ottla.metadata.znodes.brokers import Endpoint
from ottla.wire import APIS, ApiKey, decode, encode, parse_request_header
from ottla.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.k05_stop_replica import StopReplicaRequest
from ottla.wire.messages.k06_update_metadata import UpdateMetadataRequest

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-frames.jsonl"
SENDER = Sender(BrokerId(1), 4, "PLAINTEXT")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = TopicId(b"0123456789abcdef")


def live(*numbers: int) -> dict[BrokerId, LiveBroker]:
    return {
        BrokerId(number): LiveBroker(
            BrokerRegistration(
                BrokerId(number), (Endpoint("PLAINTEXT", "127.0.0.1", 19091 + number, "PLAINTEXT"),), rack=f"r{number}"
            ),
            60 + number,
        )
        for number in numbers
    }


def situation(*alive: int, topic_id: TopicId = ID, epoch: int = 0) -> Situation:
    replicas = (BrokerId(1), BrokerId(2))
    state = LeaderAndIsr(BrokerId(1), epoch, replicas, 4)
    partitions = {0: ReplicaAssignment(replicas), 1: ReplicaAssignment(replicas)}
    topic = Topic("t", topic_id, partitions, {0: state, 1: state})
    return Situation(image=Image(brokers=live(*alive)).with_topic(topic), controller_epoch=4)


def made(batch: Batch, known: Situation, broker: int = 2) -> Orders:
    return batch.orders(known, SENDER)[BrokerId(broker)]


def leading(where: TopicPartition, known: Situation, *, is_new: bool = False) -> Orders:
    batch = Batch()
    batch.lead(where, (BrokerId(2),), is_new=is_new)
    return made(batch, known)


def stopping(where: TopicPartition, known: Situation, *, delete: bool) -> Orders:
    batch = Batch()
    batch.stop(where, (BrokerId(2),), delete=delete)
    return made(batch, known)


def test_replicas_lead_before_everybody_hears_of_it_and_stop_last() -> None:
    batch = Batch()
    batch.lead(T0, (BrokerId(2),))
    batch.stop(T1, (BrokerId(2),), delete=False)
    orders = batch.orders(situation(1, 2, 3), SENDER)
    kinds = [type(request) for request in orders[BrokerId(2)].requests(SENDER, 62)]
    assert kinds == [LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest]
    assert [type(request) for request in orders[BrokerId(3)].requests(SENDER, 63)] == [UpdateMetadataRequest]
    assert all(type(request) in VERSIONS for request in orders[BrokerId(2)].requests(SENDER, 62))


def test_what_waits_is_merged_and_the_newest_state_wins() -> None:
    first, second = leading(T0, situation(1, 2), is_new=True), leading(T0, situation(1, 2, epoch=5))
    assert first.merge(second)
    assert first.merge(leading(T1, situation(1, 2)))
    assert (first.states[T0].leader_epoch, first.states[T0].is_new) == (5, True)
    assert set(first.states) == {T0, T1}
    assert first.merge(stopping(T1, situation(1, 2), delete=True))
    assert first.merge(stopping(T1, situation(1, 2), delete=False))
    assert first.stops[T1].delete_partition


def test_what_follows_a_stop_or_belongs_to_a_new_topic_of_that_name_or_a_greeting_stays_apart() -> None:
    assert not stopping(T0, situation(1, 2), delete=True).merge(leading(T0, situation(1, 2)))
    assert not leading(T0, situation(1, 2)).merge(leading(T0, situation(1, 2, topic_id=TopicId(b"f" * 16))))
    batch = Batch()
    batch.tell_everything(BrokerId(2))
    greeting = made(batch, situation(1, 2))
    assert set(greeting.metadata) == {T0, T1}
    assert not greeting.merge(leading(T0, situation(1, 2)))
    assert not leading(T0, situation(1, 2)).merge(greeting)


def test_a_greeting_says_that_it_is_of_everything() -> None:
    batch = Batch()
    batch.tell_everything(BrokerId(2))
    greeting, later = made(batch, situation(1, 2)), leading(T0, situation(1, 2))
    kinds = [
        [each.type for each in orders.requests(SENDER, 1) if isinstance(each, UpdateMetadataRequest)]
        for orders in (greeting, later)
    ]
    assert kinds == [[OF_EVERYTHING], [0]]


def test_a_topic_on_its_way_out_has_no_leader_and_stops_in_whatever_epoch() -> None:
    known = situation(1, 2)
    going = Situation(image=known.image, controller_epoch=4, deleting=frozenset({"t"}))
    batch = Batch()
    batch.tell((T0,))
    batch.stop(T0, (BrokerId(2),), delete=True)
    orders = made(batch, going)
    assert (orders.metadata[T0].leader, orders.stops[T0].leader_epoch) == (DELETING, DELETING)


def captured(api: str) -> list[tuple[int, bytes, int]]:
    """Version, frame and where the body begins, of what a 3.9.1 controller sent."""
    found = []
    for line in GOLDEN.read_text().splitlines():
        entry = json.loads(line)
        if entry["api"] == api:
            frame = bytes.fromhex(entry["request"])
            found.append((entry["version"], frame, parse_request_header(frame)[4]))
    return found


def test_the_orders_of_an_apache_controller_are_given_again_byte_for_byte() -> None:
    """The shortest of each kind, rebuilt from the situation that it tells of."""
    version, frame, pos = captured("LeaderAndIsr")[0]
    sent = decode(LeaderAndIsrRequest, version, frame, pos)
    assert version == VERSIONS[LeaderAndIsrRequest]
    (topic,) = sent.topic_states
    (partition,) = topic.partition_states
    where = TopicPartition(topic.topic_name, partition.partition_index)
    replicas = tuple(map(BrokerId, partition.replicas))
    state = LeaderAndIsr(BrokerId(partition.leader), partition.leader_epoch, tuple(map(BrokerId, partition.isr)), 1, 0)
    image = Image(brokers=live(0, 1, 2)).with_topic(
        Topic(
            where.topic,
            TopicId(topic.topic_id),
            {where.partition: ReplicaAssignment(replicas)},
            {where.partition: state},
        )
    )
    # The captured brokers listened one port further on.
    leader = image.brokers[BrokerId(partition.leader)].registration
    moved = leader._replace(endpoints=(leader.endpoints[0]._replace(port=sent.live_leaders[0].port),))
    image = image.with_broker(LiveBroker(moved, sent.broker_epoch))
    batch = Batch()
    batch.lead(where, (BrokerId(partition.leader),), is_new=True)
    orders = batch.orders(Situation(image=image, controller_epoch=1), Sender(BrokerId(1), 1, "PLAINTEXT"))
    request = orders[BrokerId(partition.leader)].requests(Sender(BrokerId(1), 1, "PLAINTEXT"), sent.broker_epoch)[0]
    assert encode(request, version) == frame[pos:]


def test_every_order_that_was_captured_has_the_version_and_the_form_we_use() -> None:
    for name, key in (
        ("LeaderAndIsr", ApiKey.LEADER_AND_ISR),
        ("UpdateMetadata", ApiKey.UPDATE_METADATA),
        ("StopReplica", ApiKey.STOP_REPLICA),
    ):
        for version, frame, pos in captured(name):
            kind = APIS[key].request
            assert version == VERSIONS[kind]
            assert encode(decode(kind, version, frame, pos), version) == frame[pos:]
