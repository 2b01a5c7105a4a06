"""Who holds a broker's id: a killed process loses it to the next one at once, a live one keeps it, a paused one comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers

NEVER_MS = "600000"
"""A session that nobody waits for: what is held by it is free only if somebody takes it."""

NOT_YET = {KafkaError.NOT_CONTROLLER, KafkaError.INVALID_REPLICATION_FACTOR}
"""What a controller answers that was elected, or that lost its only broker, a moment ago: it has yet to read what there is."""


@pytest.fixture(scope="module")
def keepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaKeepers]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("keeper"), settings={"maxSessionTimeout": NEVER_MS}) as running:
        yield running


def brokers(keepers: OttlaKeepers, name: str, folder: Path, session_ms: str) -> OttlaBrokers:
    """One broker with the id 1 on a tree of the test's own."""
    return OttlaBrokers(1, f"{keepers.hosts}/{name}", folder, settings={"zookeeper.session.timeout.ms": session_ms})


def make_topic(bootstrap: str, name: str) -> None:
    """Takes a controller: without one, nobody makes topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    refused: list[int] = []

    def made() -> bool:
        try:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=120)
        except KafkaException as error:
            code = error.args[0].code()
            if refused and code == KafkaError.TOPIC_ALREADY_EXISTS:
                return True  # it was written down before the controller found that it is none
            if code not in NOT_YET:
                raise
            refused.append(code)
            return False
        return True

    wait_until(made, timeout_s=120, what=f"{name} is made")


def test_a_killed_broker_serves_again_without_waiting_for_its_session(keepers: OttlaKeepers, tmp_path: Path) -> None:
    with brokers(keepers, "killed", tmp_path, NEVER_MS) as own:
        make_topic(own.bootstrap, "before")
        own.kill(0)
        own.start(0)
        make_topic(own.bootstrap, "after")
        topics = AdminClient({"bootstrap.servers": own.bootstrap}).list_topics(timeout=120).topics
        assert topics.keys() == {"before", "after"}


def test_a_killed_broker_is_replaced_on_another_port(keepers: OttlaKeepers, tmp_path: Path) -> None:
    with brokers(keepers, "moved", tmp_path / "first", NEVER_MS) as first:
        first.kill(0)
        with brokers(keepers, "moved", tmp_path / "second", NEVER_MS) as second:
            make_topic(second.bootstrap, "t")


def test_a_second_broker_of_the_same_id_is_refused(keepers: OttlaKeepers, tmp_path: Path) -> None:
    with brokers(keepers, "twins", tmp_path / "first", NEVER_MS) as first:
        second = brokers(keepers, "twins", tmp_path / "second", NEVER_MS)
        try:
            second.brokers[0].start()
            assert second.brokers[0].wait(60) == 1
        finally:
            second.kill(0)
        assert "cannot start: broker.id 1 is in use: a broker of that id answers at PLAINTEXT://127.0.0.1:" in (
            second.brokers[0].tail()
        )
        make_topic(first.bootstrap, "t")


def test_the_death_of_a_broker_and_of_the_controller_are_noticed_long_before_their_sessions_end(
    keepers: OttlaKeepers, tmp_path: Path
) -> None:
    client = KazooClient(hosts=f"{keepers.hosts}/deaths")
    settings = {"zookeeper.session.timeout.ms": NEVER_MS}
    with OttlaBrokers(3, f"{keepers.hosts}/deaths", tmp_path, settings=settings) as own:
        client.start()
        try:
            own.kill(2)
            wait_until(lambda: not client.exists("/brokers/ids/3"), timeout_s=120, what="broker 3 is given up")
            own.kill(0)
            wait_until(lambda: not client.exists("/brokers/ids/1"), timeout_s=120, what="the controller is given up")
            assert b'"brokerid":2' in client.get("/controller")[0]
            own.start(2)
            wait_until(lambda: client.exists("/brokers/ids/3"), timeout_s=120, what="broker 3 is back")
        finally:
            client.stop()
            client.close()


def test_a_broker_that_was_taken_for_dead_by_mistake_registers_again(keepers: OttlaKeepers, tmp_path: Path) -> None:
    client = KazooClient(hosts=f"{keepers.hosts}/mistaken")
    with brokers(keepers, "mistaken", tmp_path, NEVER_MS) as own:
        client.start()
        try:
            _, registered = client.get("/brokers/ids/1")
            client.delete("/brokers/ids/1")
            again = wait_until(lambda: client.exists("/brokers/ids/1"), timeout_s=120, what="the broker is back")
            assert again.czxid > registered.czxid
            make_topic(own.bootstrap, "after")
        finally:
            client.stop()
            client.close()


def test_a_broker_without_an_id_is_given_one_and_keeps_it(keepers: OttlaKeepers, tmp_path: Path) -> None:
    settings = {"broker.id": "-1", "reserved.broker.max.id": "40"}
    client = KazooClient(hosts=f"{keepers.hosts}/given")
    with OttlaBrokers(2, f"{keepers.hosts}/given", tmp_path, settings=settings) as own:
        client.start()
        try:
            assert sorted(client.get_children("/brokers/ids")) == ["41", "42"]
            own.kill(0)
            own.start(0)
            assert sorted(client.get_children("/brokers/ids")) == ["41", "42"]
        finally:
            client.stop()
            client.close()


def test_a_broker_that_was_paused_until_its_session_ended_registers_again(
    keepers: OttlaKeepers, tmp_path: Path
) -> None:
    client = KazooClient(hosts=f"{keepers.hosts}/paused")
    with brokers(keepers, "paused", tmp_path, "5000") as own:  # and not before it is paused
        make_topic(own.bootstrap, "before")
        client.start()
        try:
            _, registered = client.get("/brokers/ids/1")
            own.brokers[0].pause()
            wait_until(lambda: not client.exists("/brokers/ids/1"), timeout_s=60, what="the session is over")
            own.brokers[0].resume()
            again = wait_until(lambda: client.exists("/brokers/ids/1"), timeout_s=60, what="the broker is back")
            assert again.czxid > registered.czxid
            wait_until(lambda: client.exists("/controller"), timeout_s=60, what="there is a controller")
            make_topic(own.bootstrap, "after")
        finally:
            own.brokers[0].resume()
            client.stop()
            client.close()
