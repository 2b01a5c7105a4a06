"""The comparison notices what it is there for: every kind of wrong answer, put into good ones, is told.

Two brokers of ours answer the same steps. Their answers agree; then one of the two is spoiled in one place, and they may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy

import pytest

from ottla.wire import Message, in_memory
from ottla.wire.messages.k00_produce import ProduceResponse
from ottla.wire.messages.k01_fetch import FetchResponse
from ottla.wire.messages.k02_list_offsets import ListOffsetsResponse
from ottla.wire.messages.k03_metadata import MetadataResponse
from ottla.wire.messages.k18_api_versions import ApiVersionsResponse
from ottla.wire.messages.k19_create_topics import CreateTopicsResponse
from ottla.wire.messages.k20_delete_topics import DeleteTopicsResponse
from ottla.wire.messages.k21_delete_records import DeleteRecordsResponse
from ottla.wire.messages.k22_init_producer_id import InitProducerIdResponse
from ottla.wire.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochResponse
from ottla.wire.messages.k32_describe_configs import DescribeConfigsResponse
from ottla.wire.messages.k33_alter_configs import AlterConfigsResponse
from ottla.wire.messages.k37_create_partitions import CreatePartitionsResponse
from ottla.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsResponse
from ottla.wire.messages.k60_describe_cluster import DescribeClusterResponse
from ottla.wire.messages.k61_describe_producers import DescribeProducersResponse
from tests.compat.answers import Comparison
from tests.compat.broker_differential import DifferenceError, compare
from tests.compat.broker_requests import Generator
from tests.compat.brokerpair import Answer, Closed, Side, Step, twins

SEED, STEPS = 5, 350
Spoil = Callable[[Message], bool]
"""Changes an answer in one place; whether there was anything to change."""


def _produce_offset(answer: Message) -> bool:
    if isinstance(answer, ProduceResponse) and not answer.responses[0].partition_responses[0].error_code:
        answer.responses[0].partition_responses[0].base_offset += 1
        return True
    return False


def _produce_error(answer: Message) -> bool:
    if isinstance(answer, ProduceResponse) and answer.responses[0].partition_responses[0].error_code:
        answer.responses[0].partition_responses[0].error_code = 0
        return True
    return False


def _fetched_byte(answer: Message) -> bool:
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for partition in topic.partitions:
                records = bytearray(in_memory(partition.records or b""))
                if len(records) > 70 and not records[22] & 7:  # packed ones have bytes that mean nothing
                    records[68] ^= 1
                    partition.records = bytes(records)
                    return True
    return False


def _fetched_nothing(answer: Message) -> bool:
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.records:
                    partition.records = b""
                    return True
    return False


def _fetched_partition(answer: Message) -> bool:
    if isinstance(answer, FetchResponse) and answer.responses:
        answer.responses[0].partitions.pop()
        return True
    return False


def _fetched_watermark(answer: Message) -> bool:
    if isinstance(answer, FetchResponse) and answer.responses:
        answer.responses[0].partitions[0].high_watermark += 1
        return True
    return False


def _session(answer: Message) -> bool:
    if isinstance(answer, FetchResponse) and answer.session_id:
        answer.session_id = 0
        return True
    return False


def _listed_offset(answer: Message) -> bool:
    if isinstance(answer, ListOffsetsResponse):
        answer.topics[0].partitions[0].offset += 1
        return True
    return False


def _topic_id(answer: Message) -> bool:
    if isinstance(answer, MetadataResponse) and answer.topics and any(answer.topics[0].topic_id):
        answer.topics[0].topic_id = bytes(range(16))
        return True
    return False


def _leader(answer: Message) -> bool:
    if isinstance(answer, MetadataResponse) and answer.topics and answer.topics[0].partitions:
        answer.topics[0].partitions[0].leader_epoch += 1
        return True
    return False


def _topic_left_out(answer: Message) -> bool:
    if isinstance(answer, MetadataResponse) and answer.topics:
        answer.topics.pop()
        return True
    return False


def _created_config(answer: Message) -> bool:
    if isinstance(answer, CreateTopicsResponse):
        for topic in answer.topics:
            if topic.configs:
                topic.configs[3].value = "42"
                return True
    return False


def _creation_error(answer: Message) -> bool:
    if isinstance(answer, CreateTopicsResponse):
        answer.topics[0].error_code ^= 1
        return True
    return False


def _growth_error(answer: Message) -> bool:
    if isinstance(answer, CreatePartitionsResponse):
        answer.results[0].error_code ^= 1
        return True
    return False


def _deletion_error(answer: Message) -> bool:
    if isinstance(answer, DeleteTopicsResponse) and answer.responses:
        answer.responses[0].error_code ^= 1
        return True
    return False


def _producer(answer: Message) -> bool:
    if isinstance(answer, InitProducerIdResponse) and not answer.error_code and answer.producer_id > 0:
        answer.producer_id = 0  # which another producer has got
        return True
    return False


def _epoch_end(answer: Message) -> bool:
    if isinstance(answer, OffsetForLeaderEpochResponse):
        answer.topics[0].partitions[0].end_offset += 1
        return True
    return False


def _synonym(answer: Message) -> bool:
    if isinstance(answer, DescribeConfigsResponse):
        for result in answer.results:
            for config in result.configs:
                if config.synonyms:
                    config.synonyms.pop()
                    return True
    return False


def _setting(answer: Message) -> bool:
    if isinstance(answer, DescribeConfigsResponse):
        for result in answer.results:
            if result.configs:
                result.configs[0].read_only ^= True
                return True
    return False


def _controller(answer: Message) -> bool:
    if isinstance(answer, DescribeClusterResponse):
        answer.controller_id += 1
        return True
    return False


def _versions(answer: Message) -> bool:
    if isinstance(answer, ApiVersionsResponse):
        answer.error_code ^= 1
        return True
    return False


def _throttled(answer: Message) -> bool:
    if isinstance(answer, MetadataResponse):
        answer.throttle_time_ms = 1
        return True
    return False


def _altered_error(answer: Message) -> bool:
    if isinstance(answer, (AlterConfigsResponse, IncrementalAlterConfigsResponse)):
        answer.responses[0].error_code ^= 42
        return True
    return False


def _altered_text(answer: Message) -> bool:
    if isinstance(answer, IncrementalAlterConfigsResponse) and answer.responses[0].error_message:
        answer.responses[0].error_message += " after all"
        return True
    return False


def _low_watermark(answer: Message) -> bool:
    if isinstance(answer, DeleteRecordsResponse):
        answer.topics[0].partitions[0].low_watermark += 1
        return True
    return False


def _last_sequence(answer: Message) -> bool:
    if isinstance(answer, DescribeProducersResponse):
        for topic in answer.topics:
            for partition in topic.partitions:
                for producer in partition.active_producers:
                    producer.last_sequence += 1
                    return True
    return False


SPOILS: tuple[Spoil, ...] = (
    _altered_error,
    _altered_text,
    _low_watermark,
    _last_sequence,
    _produce_offset,
    _produce_error,
    _fetched_byte,
    _fetched_nothing,
    _fetched_partition,
    _fetched_watermark,
    _session,
    _listed_offset,
    _topic_id,
    _leader,
    _topic_left_out,
    _created_config,
    _creation_error,
    _growth_error,
    _deletion_error,
    _producer,
    _epoch_end,
    _synonym,
    _setting,
    _controller,
    _versions,
    _throttled,
)
SINCE: dict[Spoil, int] = {_throttled: 3, _leader: 7, _topic_id: 10, _created_config: 5}
"""The version that first carries what is spoiled; 0 if every version does."""


def copied(value: object) -> object:
    """Like deepcopy, which cannot copy the views that records are."""
    if isinstance(value, Message):
        made = object.__new__(type(value))
        for name in value.__slots__:
            setattr(made, name, copied(getattr(value, name)))
        return made
    if isinstance(value, list):
        return [copied(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def spoiled(answer: Answer, spoil: Spoil) -> Answer | None:
    made = copied(answer.outcome)
    assert isinstance(made, Message)
    return Answer(answer.step, answer.version, made) if spoil(made) else None


def look(comparison: Comparison, left: Answer, right: Answer, noticed: Counter[Spoil]) -> None:
    """Spoil ``right`` in every way there is, and expect each to be told."""
    assert comparison.differences(left, Answer(right.step, right.version, Closed())), "no answer at all"
    for spoil in SPOILS:
        wrong = spoiled(right, spoil)
        if wrong is not None and right.version >= SINCE.get(spoil, 0):
            assert deepcopy(comparison).differences(left, wrong), f"{spoil.__name__} in {right.step}"
            noticed[spoil] += 1


def test_every_wrong_answer_is_noticed() -> None:
    comparison = Comparison()
    noticed: Counter[Spoil] = Counter()
    with twins() as (left, right):
        for step in Generator(SEED).steps(STEPS):
            for one, other in zip(left.run(step), right.run(step), strict=True):
                assert comparison.differences(one, other) == [], str(step)
                if isinstance(one.outcome, Message):
                    look(comparison, one, other, noticed)
    missing = [spoil.__name__ for spoil in SPOILS if not noticed[spoil]]
    assert not missing, "there was nothing to spoil"


class Liar(Side):
    """Answers the tenth request for offsets with one more."""

    asked = 0

    def run(self, step: Step) -> list[Answer]:
        answers = super().run(step)
        for answer in answers:
            if isinstance(answer.outcome, ListOffsetsResponse):
                self.asked += 1
                if self.asked == 10:
                    answer.outcome.topics[0].partitions[0].offset += 1
        return answers


def test_a_run_ends_at_the_first_wrong_answer() -> None:
    with twins() as (left, right):
        liar = Liar(right.name, right.port)
        try:
            with pytest.raises(DifferenceError, match=r"ListOffsets v[\s\S]*offset"):
                compare(left, liar, Generator(SEED).steps(STEPS))
        finally:
            liar.close()
