"""A leader that hung up, or is one no more: who asks for it waits for the controller's word, and hears of the broker a little longer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.clock import ManualClock
from ottla.base.errors import RemoteProtocolError
from ottla.broker.api import Answer, Parked
from ottla.broker.apis import k03_metadata
from ottla.broker.cluster import PARTING_S, ClusterView
from ottla.broker.context import Context
from ottla.broker.stepwise import NAMED_MAX
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import Image, LiveBroker, Topic
from ottla.metadata.znodes.brokers import BrokerRegistration, Endpoint
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment
from ottla.replica.fetchers import VERDICT_S
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

ONE, TWO = BrokerId(1), BrokerId(2)


def image(leaders: Mapping[str, BrokerId], *brokers: BrokerId, epoch: int = 0) -> Image:
    live = {
        broker: LiveBroker(BrokerRegistration(broker, (Endpoint("PLAINTEXT", "h", broker, "PLAINTEXT"),)), broker)
        for broker in brokers
    }
    topics = {
        name: Topic(name, None, {0: ReplicaAssignment((ONE, TWO))}, {0: LeaderAndIsr(leader, epoch, (ONE, TWO), 1)})
        for name, leader in leaders.items()
    }
    return Image(brokers=live, topics=topics)


class Asked:
    """Broker 1, of two, asked for metadata; ``give_up`` is what a timer is to do, if one runs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.followed: set[BrokerId] = set()
        self.cut_off: set[BrokerId] = set()
        self.cluster = ClusterView(followed=lambda: self.followed, cut_off=lambda: self.cut_off, clock=self.clock)
        self.cluster.update(image({"t": TWO, "u": ONE}, ONE, TWO))
        self.give_up: Callable[[], None] | None = None

    def call_later(self, _seconds: float, callback: Callable[[], None]) -> SimpleNamespace:
        self.give_up = callback
        return SimpleNamespace(cancel=lambda: None)

    def ask(self, *names: str) -> Answer:
        config = SimpleNamespace(auto_create_topics=False)
        services = SimpleNamespace(cluster=self.cluster, loop=self, config=config)
        ctx = Context(cast("Any", services), "PLAINTEXT", ("127.0.0.1", 1))
        ctx.version = 9
        return k03_metadata.handle(ctx, MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]))

    def brokers(self) -> list[int]:
        answer = self.ask("u")
        assert isinstance(answer, MetadataResponse)
        return [broker.node_id for broker in answer.brokers]


def leader(answer: object) -> int:
    assert isinstance(answer, MetadataResponse)
    return answer.topics[0].partitions[0].leader_id


def test_who_asks_for_a_leader_that_hung_up_is_told_of_the_new_one() -> None:
    asked = Asked()
    asked.cut_off.add(TWO)
    answer = asked.ask("t")
    assert isinstance(answer, Parked)
    asked.cluster.update(asked.cluster.image)  # of something else
    assert not answer.is_complete
    asked.cluster.update(image({"t": ONE, "u": ONE}, ONE))
    assert leader(answer.response) == ONE


def test_who_is_quicker_to_ask_than_the_broker_to_hear_is_told_of_the_new_one() -> None:
    asked = Asked()
    asked.followed.add(TWO)
    answer = asked.ask("t")
    assert isinstance(answer, Parked)
    asked.cut_off.add(TWO)
    listened, asked.give_up = asked.give_up, None
    assert listened is not None
    listened()
    assert not answer.is_complete
    asked.cluster.update(image({"t": ONE, "u": ONE}, ONE))
    assert leader(answer.response) == ONE


def test_who_asks_for_a_leader_that_is_there_is_answered_after_a_moment() -> None:
    asked = Asked()
    asked.followed.add(TWO)
    assert leader(asked.ask("u")) == ONE, "at once, if this broker leads"
    answer = asked.ask("t")
    assert isinstance(answer, Parked)
    assert asked.give_up is not None
    asked.give_up()
    assert leader(answer.response) == TWO


def test_a_request_that_is_refused_is_refused_before_anybody_listens() -> None:
    """A timer has nobody to tell."""
    asked = Asked()
    asked.followed.add(TWO)
    with pytest.raises(RemoteProtocolError):
        asked.ask("t", *map(str, range(NAMED_MAX + 1)))
    assert asked.give_up is None


def test_a_topic_that_is_named_very_often_is_looked_at_once() -> None:
    asked = Asked()
    asked.followed.add(TWO)
    looked: list[object] = []
    asked.cluster.is_watched = lambda topics: bool(looked.append(topics))  # type: ignore[method-assign,func-returns-value]
    asked.ask(*["u"] * 1000)
    assert looked == [["u"]]


def test_who_asks_for_others_does_not_wait() -> None:
    asked = Asked()
    asked.cut_off.add(TWO)
    assert leader(asked.ask("u")) == ONE


def test_nobody_waits_for_long() -> None:
    asked = Asked()
    asked.cut_off.add(TWO)
    answer = asked.ask("t")
    assert isinstance(answer, Parked)
    assert asked.give_up is not None
    asked.give_up()
    assert leader(answer.response) == TWO, "as far as anybody knows"
    asked.cluster.update(image({"t": ONE, "u": ONE}, ONE))
    assert leader(answer.response) == TWO, "it was answered"


def test_who_asks_for_a_leader_that_is_none_any_more_is_told_of_the_new_one() -> None:
    asked = Asked()
    asked.cluster.expect(TopicPartition("u", 0), LeaderAndIsr(TWO, 1, (ONE, TWO), 1))
    assert leader(asked.ask("t")) == TWO, "who asks for others does not wait"
    answer = asked.ask("u")
    assert isinstance(answer, Parked)
    asked.cluster.update(replace(image({"t": TWO}, ONE, TWO), topics=asked.cluster.image.topics))
    assert not answer.is_complete, "that was of something else"
    asked.cluster.update(image({"t": TWO, "u": TWO}, ONE, TWO, epoch=1))
    assert leader(answer.response) == TWO
    assert leader(asked.ask("u")) == TWO, "nobody waits for what was told"


def test_nobody_waits_for_what_is_known_or_was_not_told_in_time() -> None:
    asked = Asked()
    asked.cluster.expect(TopicPartition("u", 0), LeaderAndIsr(ONE, 1, (ONE,), 1))
    assert leader(asked.ask("u")) == ONE, "it leads as before"
    asked.cluster.expect(TopicPartition("new", 0), LeaderAndIsr(ONE, 0, (ONE,), 1))
    assert leader(asked.ask("u")) == ONE
    asked.cluster.expect(TopicPartition("u", 0), LeaderAndIsr(TWO, 1, (ONE, TWO), 1))
    asked.clock.advance(VERDICT_S)
    assert leader(asked.ask("u")) == ONE, "as far as anybody knows"


def test_a_broker_that_is_gone_is_told_of_a_little_longer() -> None:
    asked = Asked()
    asked.cluster.update(image({"t": ONE, "u": ONE}, ONE))
    assert asked.brokers() == [ONE, TWO], "clients look for the new leader first"
    assert [broker for broker, _, _ in asked.cluster.reachable("PLAINTEXT")] == [ONE]
    asked.clock.advance(PARTING_S)
    assert asked.brokers() == [ONE]


def test_one_that_is_back_is_told_of_once() -> None:
    asked = Asked()
    asked.cluster.update(image({"t": ONE, "u": ONE}, ONE))
    asked.cluster.update(image({"t": ONE, "u": ONE}, ONE, TWO))
    assert asked.brokers() == [ONE, TWO]
