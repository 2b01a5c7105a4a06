from __future__ import annotations

import traceback

import pytest

from ottla import wire
from ottla.base.errors import RemoteProtocolError
from ottla.wire.codec import decoder_of_the_table
from ottla.wire.messages.k00_produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.messages.k01_fetch import FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.k02_list_offsets import ListOffsetsRequest
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.k18_api_versions import ApiVersionsRequest
from ottla.wire.messages.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor
from ottla.wire.messages.offset_commit import OffsetCommitKey, OffsetCommitValue

RECORDS = bytes(range(256)) * 64


def _produce(records: wire.Buffer | None) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)])


def test_a_message_as_it_is_on_the_wire() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="mm")
    assert wire.encode(request, 0) == b"\0\1g" + b"\0\0\0\3" + b"\0\2mm"
    assert wire.encode(request, 4) == b"\2g" + b"\0\0\0\3" + b"\3mm" + b"\0" + b"\0"


def test_stored_records_are_messages_too() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=7)
    assert wire.encode(key, 1) == b"\0\1g\0\1t\0\0\0\7"
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)
    assert wire.decode(OffsetCommitValue, 3, wire.encode(value, 3)) == value


class TestRecords:
    def test_are_read_as_a_view_into_the_frame(self) -> None:
        frame = wire.encode(_produce(RECORDS), 9)
        records = decoder_of_the_table(ProduceRequest, 9)(frame).topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records.obj is frame
        assert records == RECORDS

    def test_are_bytes_where_they_are_to_be_validated(self) -> None:
        frame = wire.encode(_produce(RECORDS), 9)
        assert wire.decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records == RECORDS

    def test_are_written_as_a_part_of_their_own(self) -> None:
        parts = wire.encode_parts(_produce(RECORDS), 9)
        assert [part is RECORDS for part in parts] == [False, True, False]
        assert b"".join(parts) == wire.encode(_produce(memoryview(RECORDS)), 9)

    def test_that_are_small_are_copied(self) -> None:
        assert len(wire.encode_parts(_produce(b"few bytes"), 9)) == 1

    def test_may_be_null(self) -> None:
        assert wire.decode(ProduceRequest, 9, wire.encode(_produce(None), 9)) == _produce(None)


class TestNull:
    def test_is_refused_where_none_may_be(self) -> None:
        with pytest.raises(wire.EncodeError, match="LeaveGroupRequest"):
            wire.encode(LeaveGroupRequest(group_id=None), 4)  # type: ignore[arg-type]
        with pytest.raises(wire.EncodeError):
            wire.encode(LeaveGroupResponse(error_code=None), 0)  # type: ignore[arg-type]
        with pytest.raises(wire.EncodeError):
            wire.encode(MetadataRequest(allow_auto_topic_creation=None), 12)  # type: ignore[arg-type]
        with pytest.raises(wire.EncodeError):
            wire.encode(ListOffsetsRequest(topics=None), 4)  # type: ignore[arg-type]

    def test_is_refused_by_the_versions_that_do_not_allow_it(self) -> None:
        assert wire.encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
        with pytest.raises(wire.EncodeError):
            wire.encode(MetadataRequest(topics=None), 0)

    @pytest.mark.parametrize("frame", [b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe"])
    def test_is_refused_when_it_is_read_where_none_may_be(self, frame: bytes) -> None:
        with pytest.raises(wire.DecodeError, match="Topics claims a length of -"):
            wire.decode(MetadataRequest, 0, frame)

    def test_structures_may_be_null(self) -> None:
        absent = wire.encode(DescribeTopicPartitionsRequest(cursor=None), 0)
        assert absent == b"\1\0\0\x07\xd0\xff\0"
        request = DescribeTopicPartitionsRequest(cursor=RequestCursor(topic_name="t", partition_index=1))
        assert wire.decode(DescribeTopicPartitionsRequest, 0, wire.encode(request, 0)) == request


class TestFieldsThatAVersionDoesNotKnow:
    def test_are_dropped_if_they_are_ignorable(self) -> None:
        assert wire.encode(HeartbeatResponse(throttle_time_ms=5), 0) == b"\0\0"

    def test_are_refused_if_not(self) -> None:
        with pytest.raises(wire.EncodeError, match="HeartbeatRequest: GroupInstanceId is set"):
            wire.encode(HeartbeatRequest(group_instance_id="i"), 2)

    def test_hold_their_defaults_after_reading(self) -> None:
        response = MetadataResponse(brokers=[], cluster_id="c", throttle_time_ms=5)
        assert wire.decode(MetadataResponse, 0, wire.encode(response, 0)) == MetadataResponse()
        assert wire.decode(FetchRequest, 2, wire.encode(FetchRequest(), 2)).max_bytes == 0x7FFFFFFF


class TestTags:
    def test_defaults_are_not_written(self) -> None:
        response = PartitionProduceResponse(current_leader=LeaderIdAndEpoch())
        assert wire.encode(_answer(response), 10) == wire.encode(_answer(PartitionProduceResponse()), 10)

    def test_what_differs_is_written_and_read(self) -> None:
        answer = _answer(PartitionProduceResponse(current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2)))
        assert b"\1\0\x09\0\0\0\1\0\0\0\2\0" in wire.encode(answer, 10)
        assert wire.decode(ProduceResponse, 10, wire.encode(answer, 10)) == answer

    def test_unknown_ones_are_skipped(self) -> None:
        frame = wire.encode(HeartbeatResponse(error_code=27), 4)
        assert frame[-1] == 0
        tags = b"\2" + b"\x05\1x" + b"\x80\x01\x81\x01" + bytes(129)
        read = wire.decode(HeartbeatResponse, 4, frame[:-1] + tags)
        assert wire.encode(read, 4) == frame

    def test_a_size_that_a_known_field_does_not_fill_is_refused(self) -> None:
        frame = wire.encode(FetchRequest(cluster_id="abc"), 12)
        assert frame.endswith(b"\1\0\4\4abc")
        assert wire.decode(FetchRequest, 12, frame).cluster_id == "abc"
        with pytest.raises(wire.DecodeError, match="tagged field 0 has the wrong size"):
            wire.decode(FetchRequest, 12, frame[:-7] + b"\1\0\5\4abcd")

    def test_more_than_there_are_bytes_are_refused(self) -> None:
        with pytest.raises(wire.DecodeError, match="tagged fields in"):
            wire.decode(ApiVersionsRequest, 3, b"\1\1\x40")

    def test_more_than_anybody_needs_are_refused(self) -> None:
        with pytest.raises(wire.DecodeError, match="where 64 are the most"):
            wire.decode(ApiVersionsRequest, 3, b"\1\1\x41" + b"\0\0" * 65)


class TestMalformed:
    @pytest.mark.parametrize("version", [0, 4])
    def test_every_cut_is_refused(self, version: int) -> None:
        frame = wire.encode(HeartbeatRequest(group_id="group", generation_id=3, member_id="member"), version)
        for length in range(len(frame)):
            with pytest.raises(wire.DecodeError):
                wire.decode(HeartbeatRequest, version, frame[:length])

    def test_counts_are_compared_with_the_bytes_that_are_left(self) -> None:
        for version, frame in ((1, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x0f")):
            with pytest.raises(wire.DecodeError, match="Topics claims a length of"):
                wire.decode(MetadataRequest, version, frame)

    def test_a_varint_ends_after_five_bytes(self) -> None:
        with pytest.raises(wire.DecodeError, match="five bytes"):
            wire.decode(MetadataRequest, 9, b"\xff" * 6)

    def test_strings_keep_to_32767_bytes_both_ways(self) -> None:
        longest = HeartbeatRequest(group_id="x" * 32767)
        assert wire.decode(HeartbeatRequest, 4, wire.encode(longest, 4)) == longest
        for version in (3, 4):
            with pytest.raises(wire.EncodeError):
                wire.encode(HeartbeatRequest(group_id="x" * 32768), version)
        with pytest.raises(wire.DecodeError, match="a string of 32768 bytes"):
            wire.decode(HeartbeatRequest, 4, b"\x81\x80\x02" + bytes(40000))

    def test_what_is_not_utf8_is_replaced_as_java_does(self) -> None:
        assert wire.decode(HeartbeatRequest, 0, b"\0\2\xff!\0\0\0\0\0\0").group_id == "\ufffd!"

    def test_the_error_closes_the_connection(self) -> None:
        assert issubclass(wire.DecodeError, RemoteProtocolError)


class TestMistakesOfOurs:
    def test_numbers_that_do_not_fit(self) -> None:
        with pytest.raises(wire.EncodeError):
            wire.encode(HeartbeatResponse(error_code=1 << 15), 0)

    def test_a_uuid_of_the_wrong_size(self) -> None:
        with pytest.raises(wire.EncodeError, match="TopicId is no uuid"):
            wire.encode(FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13)

    def test_half_a_character(self) -> None:
        with pytest.raises(wire.EncodeError):
            wire.encode(HeartbeatRequest(group_id="\ud800"), 4)

    def test_versions_that_are_not(self) -> None:
        with pytest.raises(wire.EncodeError, match="HeartbeatResponse has no version 5"):
            wire.encode(HeartbeatResponse(), 5)
        with pytest.raises(wire.DecodeError, match="has no version -1"):
            wire.decode(HeartbeatResponse, -1, b"")


def test_what_follows_the_last_field_is_ignored() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert wire.decode(MetadataRequest, 12, wire.encode(request, 12) + b"\0\0\0") == request


def test_versions_of_one_shape_share_a_codec() -> None:
    assert wire.decoder(HeartbeatRequest, 1) is wire.decoder(HeartbeatRequest, 2)
    assert wire.decoder(HeartbeatRequest, 3) is not wire.decoder(HeartbeatRequest, 4)
    assert wire.encoder(FetchResponse, 13) is wire.encoder(FetchResponse, 14)


def test_a_traceback_shows_the_line_that_failed() -> None:
    with pytest.raises(wire.DecodeError) as caught:
        wire.decode(HeartbeatRequest, 0, b"\0\1")
    shown = "".join(traceback.format_exception(caught.value))
    assert "HeartbeatRequest decoder, first met in version" in shown
    assert "raise overrun('HeartbeatRequest: GroupId', stop - pos, end - pos)" in shown


def _answer(partition: PartitionProduceResponse) -> ProduceResponse:
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
