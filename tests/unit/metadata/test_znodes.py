from __future__ import annotations

import json
import re

import pytest

from ottla.metadata.errors import ZnodeError
from ottla.metadata.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.znodes import brokers, cluster, configs, orders, paths, security, topics
from tests.unit.metadata.golden import captured, encoded
from tests.znodes import again

CAPTURED = captured()
ENCODED = encoded()
A0, B7 = TopicPartition("a", 0), TopicPartition("b", 7)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


@pytest.mark.parametrize("path", CAPTURED)
def test_a_captured_znode_is_written_again_byte_for_byte(path: str) -> None:
    assert again(path, CAPTURED[path]) == CAPTURED[path]


@pytest.mark.parametrize("count", [1, 3, 11, 12, 23, 24, 50, 100, 1000])
def test_partitions_come_in_the_order_of_kafkas_map(count: int) -> None:
    partitions = {p: topics.ReplicaAssignment(ids(p % 7, p % 7 + 1)) for p in range(count)}
    topic_id = TopicId(count.to_bytes(8) + (7).to_bytes(8))
    assert topics.encode_topic(topics.TopicAssignment(topic_id, partitions)) == ENCODED[f"topic {count}"]


def test_a_topic_under_reassignment() -> None:
    moving = {p: topics.ReplicaAssignment(ids(1, 2)).reassign_to(ids(3, 1)) for p in range(14)}
    moving[14] = topics.ReplicaAssignment(ids(1))
    topic = topics.TopicAssignment(TopicId((1).to_bytes(8) + (2).to_bytes(8)), moving)
    assert topics.encode_topic(topic) == ENCODED["topic moving"]
    assert topics.encode_topic(topic._replace(topic_id=None)) == ENCODED["topic without id"]
    assert topics.decode_topic("t", ENCODED["topic moving"]) == topic
    assert moving[0].target_replicas == ids(3, 1)
    assert moving[0].origin_replicas == ids(1, 2)


@pytest.mark.parametrize("recovering", [False, True])
def test_the_state_of_a_partition(recovering: bool) -> None:
    state = topics.LeaderAndIsr(BrokerId(3), 17, ids(3, 1), 9, partition_epoch=5, recovering=recovering)
    wanted = ENCODED["state RECOVERING" if recovering else "state RECOVERED"]
    assert topics.encode_state(state) == wanted
    assert topics.decode_state(A0, wanted, partition_epoch=5) == state


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9])
def test_a_registration_with_many_listeners(count: int) -> None:
    protocols = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    wanted = ENCODED[f"broker {count}"]
    registration = brokers.BrokerRegistration(
        BrokerId(4),
        tuple(
            brokers.Endpoint(f"L{i}", "::1" if i == 1 else f"h{i}", 9000 + i, protocols[(i + 1) % 4])
            for i in range(count)
        ),
        rack=None if count == 2 else "r",
        features={f"feature.{i}": brokers.SupportedVersions(1, i + 2) for i in range(count - 1)},
        jmx_port=9999,
        timestamp_ms=int(json.loads(wanted)["timestamp"]),
    )
    assert brokers.encode_broker(registration) == wanted
    assert brokers.decode_broker(BrokerId(4), wanted) == registration


@pytest.mark.parametrize("count", [0, 1, 5, 9, 11, 12, 14])
def test_settings_come_in_the_order_of_javas_properties(count: int) -> None:
    names = [
        "retention.ms",
        "cleanup.policy",
        "segment.bytes",
        "compression.type",
        "min.insync.replicas",
        "max.message.bytes",
        "flush.ms",
        "flush.messages",
        "segment.ms",
        "preallocate",
        "retention.bytes",
        "index.interval.bytes",
        "delete.retention.ms",
        "file.delete.delay.ms",
    ]
    config = {name: f'vü\x07"\\{at}' for at, name in enumerate(names[:count])}
    assert configs.encode_config(config) == ENCODED[f"config {count}"]
    assert configs.decode_config(configs.topic_entity("t"), ENCODED[f"config {count}"]) == config


def test_what_there_is_one_of() -> None:
    cases = {
        "reassign": orders.encode_reassignment({A0: ids(1, 2), B7: ids(3)}),
        "preferred": orders.encode_partitions([A0, B7]),
        "isr change": orders.encode_partitions([A0, B7]),
        "log dir event": orders.encode_log_dir_event(BrokerId(4)),
        "producer ids": cluster.encode_producer_ids(cluster.ProducerIdBlock(BrokerId(3), 5000, 5999)),
        "controller": cluster.encode_controller(cluster.ControllerRegistration(BrokerId(6), 1234567890123)),
        "controller epoch": cluster.encode_controller_epoch(12),
        "cluster id": cluster.encode_cluster_id("FofCvBuQSjiPR6S7WyRpXA"),
        "migration": cluster.encode_migration(cluster.Migration(3000, 5, 77, 4)),
        "token": security.encode_token(
            security.DelegationToken("tok-1", "User:bob", "User:al ice", ("User:al ice", "User:bob"), 10, 20, 30)
        ),
    }
    assert cases == {name: ENCODED[name] for name in cases}
    assert orders.decode_reassignment(ENCODED["reassign"]) == {A0: ids(1, 2), B7: ids(3)}
    assert cluster.decode_migration(ENCODED["migration"]) == cluster.Migration(3000, 5, 77, 4)
    assert security.encode_token(security.decode_token("tok-1", ENCODED["token"])) == ENCODED["token"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("status", ["Disabled", "Enabled"])
def test_finalized_features(version: int, status: str) -> None:
    levels = {"group.version": 1, "metadata.version": 7}
    features = cluster.FinalizedFeatures(levels, enabled=status == "Enabled", version=version)
    assert cluster.encode_features(features) == ENCODED[f"feature {version} {status}"]
    assert cluster.decode_features(ENCODED[f"feature {version} {status}"]) == features


def test_registrations_of_every_version_are_read() -> None:
    old = brokers.decode_broker(BrokerId(1), b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"5"}')
    assert old.endpoints == (brokers.Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)
    third = brokers.decode_broker(
        BrokerId(1), b'{"version":3,"endpoints":["SSL://h:9093"],"host":null,"port":-1,"rack":"r","timestamp":"5"}'
    )
    assert third.endpoint("SSL") == brokers.Endpoint("SSL", "h", 9093, "SSL")
    assert third.rack == "r"
    fourth = brokers.decode_broker(
        BrokerId(1),
        b'{"version":4,"endpoints":["IN://[::1]:1"],"listener_security_protocol_map":{"IN":"SASL_SSL"},"timestamp":"5"}',
    )
    assert fourth.endpoints == (brokers.Endpoint("IN", "::1", 1, "SASL_SSL"),)
    assert fourth.mark is None
    for clean in (True, False):
        ours = fourth._replace(mark=brokers.Mark(clean=clean))
        assert brokers.decode_broker(BrokerId(1), brokers.encode_broker(ours)).mark == ours.mark


def test_topics_of_every_version_are_read() -> None:
    first = topics.decode_topic("t", b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}')
    assert first == topics.TopicAssignment(
        None, {0: topics.ReplicaAssignment(ids(1, 2)), 1: topics.ReplicaAssignment(ids(2))}
    )
    second = topics.decode_topic(
        "t", b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{}}'
    )
    assert second.partitions[0].adding == ids(2)


def test_changes_of_settings_in_the_first_version_are_read() -> None:
    change = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert configs.decode_config_change("/config/changes/config_change_0000000001", change) == configs.topic_entity("t")


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (configs.topic_entity("t"), "topics/t"),
        (configs.broker_entity(None), "brokers/<default>"),
        (configs.broker_entity(BrokerId(3)), "brokers/3"),
        (configs.ConfigEntity("users", "al ice/1"), "users/al%20ice%2F1"),
        (configs.ConfigEntity("users", "a~*+ü"), "users/a%7E%2A%2B%C3%BC"),
        (configs.ConfigEntity("clients", None), "clients/<default>"),
        (configs.ConfigEntity("users", "u", configs.ConfigClient(None)), "users/u/clients/<default>"),
        (configs.ConfigEntity("users", None, configs.ConfigClient("c d")), "users/<default>/clients/c%20d"),
        (configs.ConfigEntity("ips", "10.0.0.1"), "ips/10.0.0.1"),
    ],
)
def test_entities_have_kafkas_paths(entity: configs.ConfigEntity, path: str) -> None:
    assert entity.entity_path == path
    assert configs.parse_entity_path(path) == entity


@pytest.mark.parametrize(
    ("path", "data", "complaint"),
    [
        ("/brokers/ids/1", b"", "is empty"),
        ("/brokers/ids/1", b"{", "is not JSON"),
        ("/brokers/ids/1", b"[" * 100_000, "is not JSON"),
        ("/brokers/ids/1", b"[]", "must hold a JSON object"),
        ("/brokers/ids/1", b'{"version":6}', "version 6 is not one of"),
        ("/brokers/ids/1", b'{"version":3,"endpoints":["nowhere"]}', "must be an endpoint like"),
        (
            "/brokers/ids/1",
            b'{"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{}}',
            "does not know",
        ),
        ("/brokers/topics/t", b'{"version":3,"partitions":{"x":[1]}}', "is no partition"),
        (
            "/brokers/topics/t",
            b'{"version":3,"partitions":{"0":["1"]}}',
            "partitions.0 must be a list of whole numbers",
        ),
        ("/brokers/topics/t", b'{"version":3,"partitions":{},"adding_replicas":{"4":[1]}}', "do not exist"),
        ("/brokers/topics/t", b'{"version":3,"partitions":{},"topic_id":"short"}', "22 characters"),
        ("/brokers/topics/t/partitions/0/state", b'{"leader":true}', "leader must be a whole number, and is True"),
        ("/controller", b'{"brokerid":"1"}', "brokerid must be"),
        ("/controller_epoch", b"one", "must hold a whole number"),
        ("/config/topics/t", b'{"version":2,"config":{}}', "version 2"),
        ("/config/topics/t", b'{"version":1,"config":{"a":1}}', "a must be text"),
        ("/config/changes/config_change_0000000000", b'{"version":2,"entity_path":"planets/x"}', "has settings"),
        ("/latest_producer_id_block", b'{"version":1,"broker":1,"block_start":"x","block_end":"2"}', "as text"),
        ("/feature", b'{"version":2,"features":{},"status":2}', "status must be"),
        ("/kafka-acl-changes/acl_changes_0000000000", b"orders", "TYPE:NAME"),
        ("/kafka-acl-changes/acl_changes_0000000000", b"Planet:orders", "type of resource"),
    ],
)
def test_garbage_is_refused_with_the_path_and_the_reason(path: str, data: bytes, complaint: str) -> None:
    with pytest.raises(ZnodeError, match=re.escape(complaint)):
        again(path, data)


def test_producer_ids_go_on_block_by_block_until_there_are_no_more() -> None:
    first = cluster.decode_producer_ids(None).next_for(BrokerId(1))
    assert first == cluster.ProducerIdBlock(BrokerId(1), 0, 999)
    assert first.next_for(BrokerId(2)) == cluster.ProducerIdBlock(BrokerId(2), 1000, 1999)
    assert cluster.ProducerIdBlock(BrokerId(1), 0, 2**63 - 1).next_for(BrokerId(1)) is None


def test_a_sequential_node_tells_its_number() -> None:
    assert paths.sequence("/isr_change_notification/isr_change_0000000042") == 42
