"""What is shown of a group."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata

from ottla.cli.client.connection import Connection, Target
from ottla.cli.client.groups import describe_groups
from ottla.cli.client.output import Output
from tests.unit.cli.client.standins import Offsets

COMMITTED = 3


class Admin(Offsets):
    """Tells of one group that nobody is in any more, which has committed the same offset for two partitions."""

    def describe_consumer_groups(self, names: list[str], **_: object) -> dict[str, Any]:
        group = SimpleNamespace(
            state=ConsumerGroupState.EMPTY, partition_assignor="", coordinator=SimpleNamespace(id=1), members=[]
        )
        return {name: _told(group) for name in names}

    def list_consumer_group_offsets(self, _asked: object, **_: object) -> dict[str, Any]:
        found = [TopicPartition("t", number, COMMITTED) for number in range(2)]
        return {"g": _told(SimpleNamespace(topic_partitions=found))}


def _told(answer: object) -> Future[object]:
    future: Future[object] = Future()
    future.set_result(answer)
    return future


def test_a_group_is_described_although_an_end_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = {number: SimpleNamespace(leader=1) for number in range(2)}
    cluster = SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})
    admin = Admin(5, KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
    connection = Connection(cast("AdminClient", admin), cast("ClusterMetadata", cluster))
    (group,) = describe_groups(Target({}, 1.0), connection, ["g"], Output("table", quiet=False))
    assert [each["committed_offset"] for each in group["partitions"]] == [COMMITTED, COMMITTED]
    assert [each["high_watermark"] for each in group["partitions"]] == [5, None]
    assert [each["lag"] for each in group["partitions"]] == [2, None]
    assert group["lag"] == 2
    assert "t-1" in capsys.readouterr().err
