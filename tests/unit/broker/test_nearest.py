"""Whom a consumer in a rack is sent to."""

from __future__ import annotations

from ottla.broker.nearest import nearest_replica
from ottla.metadata import BrokerId, BrokerRegistration, Image, LeaderAndIsr, LiveBroker
from ottla.metadata.znodes.brokers import Endpoint
from ottla.replica.leadership import Leadership

A, B, C, D = map(BrokerId, (1, 2, 3, 4))
RACKS = {A: "a", B: "b", C: "b", D: None}


def image(*gone: BrokerId) -> Image:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")
    live = {
        broker: LiveBroker(BrokerRegistration(broker, (endpoint,), rack=rack), 1)
        for broker, rack in RACKS.items()
        if broker not in gone
    }
    return Image(brokers=live)


def leadership(*, isr: tuple[BrokerId, ...] = (A, B, C, D), ends: tuple[int, int] = (10, 12)) -> Leadership:
    state = LeaderAndIsr(A, 0, isr, 1)
    led = Leadership(A, state, (A, B, C, D), start_offset=0, now_s=0.0)
    for replica, end in zip((B, C), ends, strict=True):
        led.fetched(replica, end, 2, broker_epoch=1, end_offset=20, now_s=0.0)
    return led


def nearest(led: Leadership, rack: str, offset: int = 5, known: Image | None = None) -> int | None:
    return nearest_replica(led, known or image(), leader=A, listener="PLAINTEXT", rack=rack, offset=offset)


def test_the_one_that_has_come_furthest_in_the_rack() -> None:
    assert nearest(leadership(), "b") == C
    assert nearest(leadership(ends=(12, 12)), "b") == B


def test_the_leader_where_it_is_near_or_nobody_is() -> None:
    assert nearest(leadership(), "a") is None
    assert nearest(leadership(), "z") is None


def test_nobody_who_is_not_in_sync_or_not_there_or_has_not_got_it() -> None:
    assert nearest(leadership(isr=(A, B)), "b") == B
    assert nearest(leadership(), "b", known=image(C)) == B
    assert nearest(leadership(), "b", offset=11) == C
    assert nearest(leadership(), "b", offset=13) is None
    assert nearest(leadership(), "b", offset=1) is None
