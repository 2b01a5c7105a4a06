"""Clients that nobody here wrote produce to one broker of ours and read by assignment; in full, to Apache Kafka's too."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.compat.clients.client import Client
from tests.compat.clients.cluster import Cluster
from tests.compat.clients.lines import Headers, Record, RefusedError, Visit
from tests.peers.processes import wait_until

pytestmark = pytest.mark.timeout(1200)
"""The first test of a client builds its program, with what that needs from elsewhere."""

FIRST_MS = 1_700_000_000_000
MESSAGE_TOO_LARGE = 10
TOPIC_ALREADY_EXISTS = 36
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TIMESTAMP = 32
INVALID_PARTITIONS = 37


def records_for(client: Client, number: int, *, partition: int = 0) -> list[Record]:
    """Keys and values, some of them null, of many sizes, with what else the client can send."""
    return [
        Record(
            partition,
            None if one % 10 == 0 else f"k{one}".encode(),
            None if one % 10 == 3 else b"value " * (one % 60) + str(one).encode(),
            (("h", b"x"),),
            FIRST_MS + one if client.can("times sent") else None,
        )
        for one in range(number)
    ]


def check(client: Client, sent: list[Record], got: list[Record]) -> None:
    """What was read is what was sent, in order, with the offsets counted from 0 in each partition."""
    counted: dict[int, int] = {}
    for before, after in zip(sent, got, strict=True):
        offset = counted.get(before.partition, 0)
        counted[before.partition] = offset + 1
        assert after.offset == offset
        assert (after.partition, after.key, after.headers) == (before.partition, before.key, before.headers)
        assert after.value == before.value
        if client.can("times sent"):
            assert after.timestamp == before.timestamp
        else:
            assert after.timestamp is not None
            assert abs(after.timestamp / 1000 - time.time()) < 3600


def goes_in_and_out(client: Client, cluster: Cluster, topic: str, sent: list[Record], **options: str | bool) -> None:
    codec, acks = str(options.get("codec", "none")), str(options.get("acks", "all"))
    told = client.produce(
        cluster.bootstrap, topic, sent, codec=codec, acks=acks, idempotent=bool(options.get("idempotent"))
    )
    partitions = sorted({record.partition for record in sent})
    got = client.read(cluster.bootstrap, topic, len(sent), assigned=partitions)
    check(client, sent, got)
    if client.can("offsets told") and acks != "0":
        assert told == [record.offset for record in got]


@pytest.mark.card("codecs")
def test_every_codec(client: Client, codec: str, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    goes_in_and_out(client, cluster, topic, records_for(client, 100), codec=codec)


@pytest.mark.card("idempotence")
def test_an_idempotent_producer(client: Client, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    goes_in_and_out(client, cluster, topic, records_for(client, 100), idempotent=True)


@pytest.mark.long
@pytest.mark.card("codecs with idempotence")
def test_every_codec_of_an_idempotent_producer(client: Client, codec: str, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    goes_in_and_out(client, cluster, topic, records_for(client, 1000), codec=codec, idempotent=True)


@pytest.mark.card("acks")
@pytest.mark.parametrize("acks", ["0", "1", pytest.param("all", marks=pytest.mark.long)])
def test_every_way_to_acknowledge(client: Client, acks: str, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    goes_in_and_out(client, cluster, topic, records_for(client, 50), acks=acks)


@pytest.mark.card("headers")
def test_headers(client: Client, cluster: Cluster, topic: str) -> None:
    """Several of one name, in their order; names beyond ASCII; empty and null values; none at all."""
    cluster.create(topic)
    kinds: list[Headers] = [
        (("a", b"1"), ("b", b"2"), ("a", b"3")),
        (("größe", "β".encode()),),
        (("null", None),) if client.can("null headers") else (("few", b"1"),),
        (("empty", b""),),
        (),
    ]
    goes_in_and_out(client, cluster, topic, [Record(0, b"k", b"v", kind, sent_at(client)) for kind in kinds])


def sent_at(client: Client) -> int | None:
    return FIRST_MS if client.can("times sent") else None


@pytest.mark.card("nulls")
def test_null_keys_and_values(client: Client, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, config={"cleanup.policy": "delete"})
    pairs: list[tuple[bytes | None, bytes | None]] = [(None, b"v"), (b"k", None), (b"k", b"v")]
    if client.can("neither key nor value"):
        pairs.append((None, None))
    if client.can("empty beside null"):
        pairs += [(b"", b""), (b"", None), (None, b"")]
    goes_in_and_out(client, cluster, topic, [Record(0, key, value, (), sent_at(client)) for key, value in pairs])


@pytest.mark.card("bytes")
@pytest.mark.parametrize("idempotent", [False, pytest.param(True, marks=pytest.mark.long)], ids=["plain", "idempotent"])
def test_a_large_record_and_one_too_large(client: Client, idempotent: bool, cluster: Cluster, topic: str) -> None:
    """900 KB that no codec makes smaller pass; 2 MB are refused by the broker, and the next one passes again."""
    cluster.create(topic)
    noise = random.Random(4).randbytes(2_000_000).replace(b"\x1e\x1e", b"").replace(b"\x1f\x1f", b"")
    large = Record(0, b"large", noise[:900_000], (), sent_at(client))
    client.produce(cluster.bootstrap, topic, [large], idempotent=idempotent)
    with pytest.raises(RefusedError) as refused:
        client.produce(cluster.bootstrap, topic, [Record(0, b"k", noise)], idempotent=idempotent)
    assert refused.value.code == MESSAGE_TOO_LARGE
    small = Record(0, b"small", b"v", (), sent_at(client))
    client.produce(cluster.bootstrap, topic, [small], idempotent=idempotent)
    check(client, [large, small], client.read(cluster.bootstrap, topic, 2))
    assert client.offsets(cluster.bootstrap, topic)[:2] == (0, 2)


@pytest.mark.card("times", needs=["times sent"])
def test_times_of_the_producer_and_of_the_broker(client: Client, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, config={"message.timestamp.after.max.ms": "3600000"})
    before = time.time() * 1000 - 60_000
    times = [FIRST_MS, FIRST_MS - 5000, 1, FIRST_MS + 1]
    goes_in_and_out(client, cluster, topic, [Record(0, b"k", b"v", (), at) for at in times])
    with pytest.raises(RefusedError) as refused:
        client.produce(cluster.bootstrap, topic, [Record(0, b"k", b"v", (), int(before) + 30 * 86_400_000)])
    assert refused.value.code == INVALID_TIMESTAMP
    stamped = f"{topic}.stamped"
    cluster.create(stamped, config={"message.timestamp.type": "LogAppendTime"})
    client.produce(cluster.bootstrap, stamped, [Record(0, b"k", b"v", (), at) for at in times], codec="gzip")
    for record in client.read(cluster.bootstrap, stamped, len(times)):
        assert record.timestamp is not None
        assert before < record.timestamp < before + 3_600_000


@pytest.mark.card("partitions", slow=["aiokafka", "kcat", "kafka-clients 3.9", "sarama"])
def test_a_hundred_partitions(client: Client, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, partitions=100)
    sent = [record for partition in range(100) for record in records_for(client, 3, partition=partition)]
    goes_in_and_out(client, cluster, topic, sent)


@pytest.mark.card("seeks")
def test_seeks_by_offset_and_by_time(
    client: Client, clients: Callable[[str], Client], cluster: Cluster, topic: str
) -> None:
    """Forth and back in one consumer, in the middle of batches and at their edges; times between two records."""
    cluster.create(topic, config={"segment.bytes": "20000", "index.interval.bytes": "500"})
    writer = client if client.can("times sent") else clients("confluent-kafka")
    sent = [Record(0, b"%d" % one, b"x" * 100, (), FIRST_MS + one * 10) for one in range(600)]
    for first in range(0, 600, 60):
        writer.produce(cluster.bootstrap, topic, sent[first : first + 60], codec="gzip" if first % 120 else "none")
    visits = [Visit(5, offset=place) for place in (590, 0, 299, 300, 1)]
    visits += [Visit(5, time=FIRST_MS + place * 10 - 3) for place in (500, 0, 61)]
    got = client.visit(cluster.bootstrap, topic, *visits)
    starts = [590, 0, 299, 300, 1, 500, 0, 61]
    assert [[record.offset for record in found] for found in got] == [list(range(at, at + 5)) for at in starts]
    assert [[record.key for record in found] for found in got] == [
        [b"%d" % (at + n) for n in range(5)] for at in starts
    ]
    assert client.offsets(cluster.bootstrap, topic, time=FIRST_MS + 2995) == (0, 600, 300)
    assert client.offsets(cluster.bootstrap, topic, time=FIRST_MS + 2990) == (0, 600, 299)
    assert client.offsets(cluster.bootstrap, topic, time=FIRST_MS + 5991)[2] == -1


@pytest.mark.card("topics", needs=["topics made"])
def test_topics_are_made_shown_and_taken_away(client: Client, cluster: Cluster, topic: str) -> None:
    assert topic not in client.topics(cluster.bootstrap)
    client.create(cluster.bootstrap, topic, partitions=5)
    shown = [(number, cluster.broker_id, [cluster.broker_id], [cluster.broker_id]) for number in range(5)]
    wait_until(lambda: topic in client.topics(cluster.bootstrap), timeout_s=120, what="the topic is listed")
    wait_until(lambda: client.describe(cluster.bootstrap, topic) == shown, timeout_s=120, what="the topic has leaders")
    with pytest.raises(RefusedError) as refused:
        client.create(cluster.bootstrap, topic)
    assert refused.value.code == TOPIC_ALREADY_EXISTS
    client.delete(cluster.bootstrap, topic)
    wait_until(lambda: topic not in client.topics(cluster.bootstrap), timeout_s=120, what="the topic is gone")
    with pytest.raises(RefusedError) as refused:
        client.delete(cluster.bootstrap, topic)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.card("settings", needs=["settings"])
def test_settings_of_a_topic_are_shown(client: Client, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, config={"retention.ms": "123456789", "cleanup.policy": "compact,delete"})
    found = client.configs(cluster.bootstrap, topic)
    assert (found["retention.ms"], found["cleanup.policy"]) == ("123456789", "compact,delete")
    assert (found["max.message.bytes"], found["min.insync.replicas"]) == ("1048588", "1")


@pytest.mark.card("partitions added", needs=["topics made"])
def test_a_topic_grows(client: Client, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, partitions=2)
    client.produce(cluster.bootstrap, topic, records_for(client, 5))
    client.grow(cluster.bootstrap, topic, 4)
    wait_until(lambda: led(client, cluster, topic) == 4, timeout_s=120, what="all four partitions have leaders")
    sent = records_for(client, 5, partition=3)
    client.produce(cluster.bootstrap, topic, sent)
    check(client, sent, client.read(cluster.bootstrap, topic, 5, assigned=[3]))
    with pytest.raises(RefusedError) as refused:
        client.grow(cluster.bootstrap, topic, 3)
    assert refused.value.code == INVALID_PARTITIONS


def led(client: Client, cluster: Cluster, topic: str) -> int:
    return sum(leader == cluster.broker_id for _, leader, _, _ in client.describe(cluster.bootstrap, topic))


@pytest.mark.card("topics shown")
def test_topics_are_shown(client: Client, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, partitions=3)
    assert topic in client.topics(cluster.bootstrap)
    broker = cluster.broker_id
    assert client.describe(cluster.bootstrap, topic) == [(number, broker, [broker], [broker]) for number in range(3)]
