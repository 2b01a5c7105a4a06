"""What is shown of a topic."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.client.description import format_topic_id, list_offsets
from tests.unit.cli.client.standins import Offsets


def test_an_id_is_written_as_kafkas_tools_write_it() -> None:
    assert format_topic_id(Uuid(-5, -6)) == "__________v_________-g"


def ends(*told: int | KafkaError, refusals: set[str] | None) -> dict[tuple[str, int], int | None]:
    partitions = [("t", number) for number in range(len(told))]
    return list_offsets(cast("AdminClient", Offsets(*told)), partitions, OffsetSpec.latest(), 1.0, refusals=refusals)


def test_a_partition_whose_offset_is_not_told_costs_the_others_nothing() -> None:
    refusals: set[str] = set()
    not_yet = KafkaError(KafkaError.OFFSET_NOT_AVAILABLE)
    assert ends(5, not_yet, 7, refusals=refusals) == {("t", 0): 5, ("t", 1): None, ("t", 2): 7}
    assert [each.partition(":")[0] for each in refusals] == ["t-1"]
    with pytest.raises(KafkaException):
        ends(5, not_yet, refusals=None)


def test_nobody_who_answers_is_no_offset_that_is_not_told() -> None:
    with pytest.raises(KafkaException):
        ends(KafkaError(KafkaError._ALL_BROKERS_DOWN), refusals=set())
