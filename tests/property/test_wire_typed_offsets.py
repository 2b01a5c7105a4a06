"""The typed codec of OffsetFetch and the one made from the table are one and the same, whatever they are given."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import Message
from ottla.wire.frames import response_framer
from ottla.wire.messages.k09_offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.offsetfetch import OffsetFetchFramer
from tests.property.test_wire_typed import check_written, i16s, i32s, i64s, names, uuids

partitions = st.builds(
    OffsetFetchResponsePartitions,
    partition_index=i32s,
    committed_offset=i64s,
    committed_leader_epoch=i32s,
    metadata=st.one_of(st.none(), names, st.just("m" * 9000)),
    error_code=i16s,
)
topics = st.builds(OffsetFetchResponseTopics, name=names, topic_id=uuids, partitions=st.lists(partitions, max_size=3))
groups = st.builds(OffsetFetchResponseGroup, group_id=names, error_code=i16s, topics=st.lists(topics, max_size=2))
responses = st.builds(OffsetFetchResponse, throttle_time_ms=i32s, error_code=i16s, groups=st.lists(groups, max_size=2))


@settings(max_examples=40)
@given(responses, i32s)
def test_offsets_of_groups_are_written_as_the_table_has_it(message: Message, number: int) -> None:
    for version in range(8, 11):
        check_written(message, version, number)


def test_the_typed_one_is_used() -> None:
    assert isinstance(response_framer(OffsetFetchResponse, 9), OffsetFetchFramer)
