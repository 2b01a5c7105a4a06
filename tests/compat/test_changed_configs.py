"""Settings changed while brokers run: through one broker, with effect on all, and still there after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.compat.brokerpair import Side
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.processes import free_ports, wait_until


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaBrokers]:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(2, keepers.hosts, tmp_path) as found:
        yield found


def change(admin: AdminClient, kind: ResourceType, name: str, **settings: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    for future in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        future.result(timeout=120)


def change_for_all(port: int, name: str, value: str) -> None:
    """librdkafka has no way to say it."""
    every = AlterConfigsResource(resource_type=4, configs=[AlterableConfig(name=name, value=value)])
    side = Side("ours", port)
    answer = side.ask(IncrementalAlterConfigsRequest(resources=[every]), 1)
    side.close()
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    assert not answer.responses[0].error_code


def described(port: int, broker: int, name: str) -> str | None:
    """The value that a broker says it has."""
    asked = DescribeConfigsResource(resource_type=4, resource_name=str(broker), configuration_keys=[name])
    side = Side("ours", port)
    answer = side.ask(DescribeConfigsRequest(resources=[asked]), 4)
    side.close()
    assert isinstance(answer, DescribeConfigsResponse)
    return answer.results[0].configs[0].value


def produce(port: int, topic: str, size: int) -> KafkaError | None:
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "message.max.bytes": 10_000_000})
    producer.produce(topic, b"x" * size, on_delivery=lambda error, _message: told.append(error))
    producer.flush(120)
    return told[0]


def test_every_broker_hears_of_a_change(brokers: OttlaBrokers) -> None:
    change_for_all(brokers.ports[0], "message.max.bytes", "3000")
    for number, port in enumerate(brokers.ports, start=1):
        wait_until(
            lambda number=number, port=port: described(port, number, "message.max.bytes") == "3000",  # type: ignore[misc]
            timeout_s=120,
            what=f"broker {number} has heard",
        )


def test_a_change_takes_effect_at_once_and_holds_after_a_restart(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(1, keepers.hosts, tmp_path) as brokers:
        [port] = brokers.ports
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        admin.create_topics([NewTopic("t", 1)])["t"].result(timeout=120)
        assert produce(port, "t", 5000) is None
        change_for_all(port, "message.max.bytes", "3000")
        error = produce(port, "t", 5000)
        assert error is not None
        assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        change(admin, ResourceType.BROKER, "1", message_max_bytes="6000")
        assert produce(port, "t", 5000) is None
        change(admin, ResourceType.TOPIC, "t", max_message_bytes="1000")
        brokers.kill(0)
        brokers.start(0)
        assert described(port, 1, "message.max.bytes") == "6000"
        assert produce(port, "t", 900) is None
        assert produce(port, "t", 1500) is not None


def test_what_cannot_be_changed_is_said(brokers: OttlaBrokers) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{brokers.ports[0]}"})
    with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: Set\(log.dirs\)"):
        change(admin, ResourceType.BROKER, "1", log_dirs="/elsewhere")


@pytest.mark.long
def test_a_listener_is_opened_told_to_everybody_closed_and_there_again_after_a_restart(brokers: OttlaBrokers) -> None:
    """A client that comes by the new listener is told the addresses of that listener, by whichever broker it asks."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{brokers.ports[0]}"})
    admin.create_topics([NewTopic("t", 2, 2)])["t"].result(timeout=30)
    new = free_ports(2)
    for number, port in enumerate(new, start=1):
        own = f"PLAINTEXT://127.0.0.1:{brokers.ports[number - 1]}"
        mapped = "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT"
        one = AdminClient({"bootstrap.servers": f"127.0.0.1:{brokers.ports[number - 1]}"})
        change(
            one,
            ResourceType.BROKER,
            str(number),
            listeners=f"{own},OUT://127.0.0.1:{port}",
            listener_security_protocol_map=mapped,
        )

    def known(port: int) -> dict[int, int]:
        try:
            listed = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=10)
        except KafkaException:
            return {}
        return {broker.id: broker.port for broker in listed.brokers.values()}

    def all_know(ports: list[int]) -> bool:
        return all(known(port) == dict(enumerate(ports, start=1)) for port in ports)

    wait_until(lambda: all_know(new), timeout_s=60, what="both know of both new listeners")
    assert all_know(brokers.ports), "and of those before"
    for port in new:
        assert produce(port, "t", 100) is None
    brokers.kill(0)
    brokers.start(0)
    wait_until(lambda: all_know(new), timeout_s=60, what="it is the same after a restart")
    other = AdminClient({"bootstrap.servers": f"127.0.0.1:{brokers.ports[1]}"})
    change(other, ResourceType.BROKER, "2", listeners=f"PLAINTEXT://127.0.0.1:{brokers.ports[1]}")
    wait_until(lambda: known(new[0]).keys() == {1}, timeout_s=60, what="the closed listener is told to nobody")
    assert known(new[1]) == {}
    assert all_know(brokers.ports)
    with pytest.raises(KafkaException, match="moved or removed by a restart"):
        change(other, ResourceType.BROKER, "2", listeners=f"PLAINTEXT://127.0.0.1:{new[1]}")
