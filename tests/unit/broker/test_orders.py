"""Orders of a controller: whose are obeyed, what they change, and how they are answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from ottla.base.clock import ManualClock
from ottla.broker.cluster import ClusterView
from ottla.broker.orders import Orders
from ottla.broker.updates import OF_EVERYTHING
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import Image, Topic
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment
from ottla.replica.errors import UnknownPartitionError
from ottla.wire import APIS, ApiKey, ErrorCode, Message, decode, parse_request_header
from ottla.wire.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.k05_stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.wire.messages.k06_update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from tests.sources import COMPILED
from tests.unit.replica.pairs import TOPIC_ID, Broker

M = TypeVar("M", bound=Message)
GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-frames.jsonl"
OWN_EPOCH = 20


class Bench:
    def __init__(self, folder: Path) -> None:
        self.broker = Broker(folder, 1)
        self.cluster = ClusterView()
        self.learned: list[str] = []
        self.forgotten: list[str] = []
        self.while_learning: Callable[[], None] | None = None
        self.orders = Orders(
            self.cluster,
            self.broker.replicas,
            ManualClock(),
            learn_topics=self._learn,
            forget_topic=self.forgotten.append,
        )
        self.orders.broker_epoch = OWN_EPOCH

    def leads(self) -> bool:
        return self.broker.partition.is_leader

    async def _learn(self, names: Iterable[str]) -> None:
        self.learned += sorted(names)
        happens, self.while_learning = self.while_learning, None
        if happens is not None:
            happens()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.broker.close()


def lead(
    *, leader: int = 1, epoch: int = 0, controller: int = 1, own: int = OWN_EPOCH, replicas: tuple[int, ...] = (1, 2)
) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=leader, leader_epoch=epoch, isr=list(replicas), replicas=list(replicas)
    )
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    return LeaderAndIsrRequest(controller_epoch=controller, broker_epoch=own, topic_states=[topic])


def stop(*, epoch: int, delete: bool) -> StopReplicaRequest:
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=epoch, delete_partition=delete)
    topic = StopReplicaTopicState(topic_name="t", partition_states=[state])
    return StopReplicaRequest(controller_epoch=1, broker_epoch=OWN_EPOCH, topic_states=[topic])


def golden(cls: type[M]) -> list[M]:
    """What an Apache Kafka 3.9.1 controller was seen to send."""
    found = []
    for line in GOLDEN.read_text().splitlines():
        entry = json.loads(line)
        if f"{entry['api']}Request" == cls.__name__:
            frame = bytes.fromhex(entry["request"])
            key, version, _, _, pos = parse_request_header(frame)
            request = decode(APIS[ApiKey(key)].request, version, frame, pos)
            assert isinstance(request, cls)
            found.append(request)
    return found


def test_a_partition_is_led_as_ordered_with_its_settings_known_first(bench: Bench) -> None:
    answer = asyncio.run(bench.orders.leader_and_isr(lead()))
    (topic,) = answer.topics
    assert (topic.topic_id, [each.error_code for each in topic.partition_errors]) == (TOPIC_ID, [0])
    assert bench.leads()
    assert bench.learned == ["t"]


def test_clients_are_not_told_of_a_leader_that_is_not_obeyed_any_more(bench: Bench) -> None:
    one, two = BrokerId(1), BrokerId(2)
    asyncio.run(bench.orders.leader_and_isr(lead()))
    state = LeaderAndIsr(one, 0, (one, two), 1)
    topic = Topic("t", TOPIC_ID, {0: ReplicaAssignment((one, two))}, {0: state})
    bench.cluster.update(Image().with_topic(topic))
    assert not bench.cluster.is_in_doubt(["t"])
    asyncio.run(bench.orders.leader_and_isr(lead(leader=2, epoch=1)))
    assert bench.cluster.is_in_doubt(["t"])


def test_what_was_ordered_to_a_life_that_ends_meanwhile_is_not_obeyed(bench: Bench) -> None:
    """Settings are read and files are made first, and that takes its time: others may lead by then."""
    asyncio.run(bench.orders.leader_and_isr(lead()))

    async def run() -> None:
        bench.orders.resign()
        assert (await bench.orders.leader_and_isr(lead(epoch=1))).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert not bench.leads()
        bench.orders.broker_epoch = OWN_EPOCH + 5
        bench.while_learning = bench.orders.resign
        answer = await bench.orders.leader_and_isr(lead(epoch=2, own=OWN_EPOCH + 5))
        assert [each.error_code for each in answer.topics[0].partition_errors] == [ErrorCode.STALE_BROKER_EPOCH]
        assert not bench.leads()
        bench.orders.broker_epoch = OWN_EPOCH + 6
        await bench.orders.leader_and_isr(lead(epoch=3, own=OWN_EPOCH + 6))
        assert bench.leads()

    asyncio.run(run())


def test_what_is_not_obeyed_is_told_of_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Its controller may order it again and again."""

    def refused() -> list[str]:
        asyncio.run(bench.orders.leader_and_isr(lead(replicas=(2, 3))))
        return [record.getMessage() for record in caplog.records]

    assert refused() == refused() == ["t-0 is not served here: t-0 is not assigned to broker 1"]
    asyncio.run(bench.orders.leader_and_isr(lead()))
    asyncio.run(bench.orders.leader_and_isr(lead()))
    assert len(caplog.records) == 1
    asyncio.run(bench.orders.stop_replica(stop(epoch=0, delete=True)))
    assert len(refused()) == 2


def test_an_older_form_is_answered_by_name(bench: Bench) -> None:
    answer = asyncio.run(bench.orders.leader_and_isr(lead(), version=4))
    assert [(each.topic_name, each.partition_index) for each in answer.partition_errors] == [("t", 0)]
    assert not answer.topics


LATE = [
    (lead(epoch=9, controller=4), ErrorCode.STALE_CONTROLLER_EPOCH),
    (lead(epoch=9, controller=6, own=OWN_EPOCH - 1), ErrorCode.STALE_BROKER_EPOCH),
]


def check_late(bench: Bench, late: LeaderAndIsrRequest, code: ErrorCode) -> None:
    asyncio.run(bench.orders.leader_and_isr(lead(epoch=3, controller=5)))
    answer = asyncio.run(bench.orders.leader_and_isr(late))
    assert (answer.error_code, answer.topics[0].partition_errors[0].error_code) == (code, code)
    assert bench.broker.partition.leader_epoch == 3
    order = stop(epoch=9, delete=True)
    order.controller_epoch, order.broker_epoch = late.controller_epoch, late.broker_epoch
    stopped = asyncio.run(bench.orders.stop_replica(order))
    assert (stopped.error_code, stopped.partition_errors[0].error_code) == (code, code)
    assert bench.leads()
    assert (bench.broker.directory.path / "t-0").is_dir()
    image = bench.cluster.image
    told = UpdateMetadataRequest(
        controller_id=9, controller_epoch=late.controller_epoch, broker_epoch=late.broker_epoch
    )
    assert (asyncio.run(bench.orders.update_metadata(told))).error_code == code
    assert bench.cluster.image is image
    assert bench.orders.controller_epoch == 5


@pytest.mark.parametrize(("late", "code"), LATE)
def test_orders_of_a_deposed_controller_or_for_an_earlier_life_change_nothing(
    bench: Bench, late: LeaderAndIsrRequest, code: ErrorCode
) -> None:
    check_late(bench, late, code)


def obey_late(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: orders of one kind are obeyed whoever gave them, and in whichever life."""
    obey = getattr(Orders, kind)

    async def obeyed(orders: Orders, request: Message) -> Message:
        with monkeypatch.context() as patch:
            patch.setattr(Orders, "_refusal", lambda *_: None)
            answer: Message = await obey(orders, request)
        return answer

    monkeypatch.setattr(Orders, kind, obeyed)


@pytest.mark.skipif(COMPILED, reason="nothing can be put in the place of compiled methods")
@pytest.mark.parametrize("kind", ["leader_and_isr", "stop_replica", "update_metadata"])
@pytest.mark.parametrize(("late", "code"), LATE)
def test_a_broker_that_obeys_what_comes_too_late_is_found_out(
    bench: Bench, late: LeaderAndIsrRequest, code: ErrorCode, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    obey_late(kind, monkeypatch)
    with pytest.raises(AssertionError):
        check_late(bench, late, code)


@pytest.mark.parametrize(
    ("order", "code"),
    [
        (lead(epoch=3), ErrorCode.STALE_CONTROLLER_EPOCH),
        (lead(epoch=2), ErrorCode.STALE_CONTROLLER_EPOCH),
        (lead(epoch=4, leader=2, replicas=(2, 3)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lead(epoch=4, leader=2), ErrorCode.NONE),
    ],
)
def test_each_partition_is_answered_for_itself(bench: Bench, order: LeaderAndIsrRequest, code: ErrorCode) -> None:
    asyncio.run(bench.orders.leader_and_isr(lead(epoch=3)))
    answer = asyncio.run(bench.orders.leader_and_isr(order))
    assert (answer.error_code, answer.topics[0].partition_errors[0].error_code) == (ErrorCode.NONE, code)


def test_a_stopped_replica_keeps_its_log_and_a_deleted_one_does_not(bench: Bench) -> None:
    asyncio.run(bench.orders.leader_and_isr(lead(epoch=3)))
    answer = asyncio.run(bench.orders.stop_replica(stop(epoch=2, delete=True)))
    assert answer.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.leads()
    asyncio.run(bench.orders.stop_replica(stop(epoch=3, delete=False)))
    assert not bench.leads()
    asyncio.run(bench.orders.stop_replica(stop(epoch=-2, delete=True)))
    with pytest.raises(UnknownPartitionError):
        _ = bench.broker.partition
    assert (asyncio.run(bench.orders.stop_replica(stop(epoch=-2, delete=True)))).partition_errors[0].error_code == 0


def test_what_a_kafka_controller_tells_is_what_clients_are_told(bench: Bench) -> None:
    told = max(golden(UpdateMetadataRequest), key=lambda request: len(request.topic_states))
    told.broker_epoch = OWN_EPOCH
    assert asyncio.run(bench.orders.obey(told)) == UpdateMetadataResponse()
    image = bench.cluster.image
    assert bench.cluster.controller_id == told.controller_id
    assert {(broker, live.registration.rack) for broker, live in image.brokers.items()} == {
        (broker.id, broker.rack) for broker in told.live_brokers
    }
    state = told.topic_states[0].partition_states[0]
    topic = image.topics[told.topic_states[0].topic_name]
    found = topic.states[state.partition_index]
    assert (found.leader, list(found.isr)) == (state.leader, state.isr)
    view = next(view for view in bench.cluster.partitions(topic, "PLAINTEXT") if view.number == state.partition_index)
    assert view.offline == state.offline_replicas


def test_a_partition_that_is_deleted_takes_its_topic_along_with_the_last(bench: Bench) -> None:
    told = golden(UpdateMetadataRequest)[1]
    told.broker_epoch = OWN_EPOCH
    asyncio.run(bench.orders.update_metadata(told))
    topic = told.topic_states[0]
    for left, state in reversed(list(enumerate(topic.partition_states))):
        gone = UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=told.controller_epoch,
            live_brokers=told.live_brokers,
            topic_states=[topic],
        )
        state.leader = -2
        gone.topic_states[0].partition_states = [state]
        asyncio.run(bench.orders.update_metadata(gone))
        assert (topic.topic_name in bench.cluster.image.topics) == bool(left)
    assert bench.forgotten == [topic.topic_name]
    assert TopicPartition(topic.topic_name, 0) not in bench.broker.replicas


def test_every_order_that_a_kafka_controller_was_seen_to_send_is_understood(bench: Bench) -> None:
    seen: list[LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest] = []
    seen += [*golden(LeaderAndIsrRequest), *golden(StopReplicaRequest), *golden(UpdateMetadataRequest)]
    assert {type(request) for request in seen} == {LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest}
    for request in seen:
        request.broker_epoch = OWN_EPOCH
        answer = asyncio.run(bench.orders.obey(request))
        assert getattr(answer, "error_code") in (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)  # noqa: B009


def told_of(*names: str, own: int) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(partition_index=0, leader=2, isr=[2], replicas=[2])
    topics = [UpdateMetadataTopicState(topic_name=name, partition_states=[state]) for name in names]
    return UpdateMetadataRequest(controller_epoch=1, broker_epoch=own, topic_states=topics)


def test_what_was_deleted_while_a_broker_was_away_is_unknown_to_it_once_it_is_back(bench: Bench) -> None:
    for names in ("ab", "c"):
        asyncio.run(bench.orders.update_metadata(told_of(*names, own=OWN_EPOCH)))
    assert bench.cluster.image.topics.keys() == {"a", "b", "c"}
    for names in ("bc", "", "d"):
        asyncio.run(bench.orders.update_metadata(told_of(*names, own=OWN_EPOCH + 1)))
    assert bench.cluster.image.topics.keys() == {"b", "c", "d"}
    assert bench.forgotten == ["a"]


def test_what_was_deleted_while_nobody_said_so_is_unknown_once_a_controller_tells_of_everything(bench: Bench) -> None:
    for names in ("ab", "c"):
        asyncio.run(bench.orders.update_metadata(told_of(*names, own=OWN_EPOCH)))
    of_everything = told_of("b", "d", own=OWN_EPOCH)
    of_everything.type = OF_EVERYTHING
    asyncio.run(bench.orders.update_metadata(of_everything))
    asyncio.run(bench.orders.update_metadata(told_of("e", own=OWN_EPOCH)))
    assert bench.cluster.image.topics.keys() == {"b", "d", "e"}
    assert sorted(bench.forgotten) == ["a", "c"]
