from __future__ import annotations

import pytest

from ottla import wire
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.k00_produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.k07_controlled_shutdown import ControlledShutdownRequest
from ottla.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse


@pytest.mark.parametrize(
    ("version", "client_id", "head"),
    [
        (3, "me", b"\0\x0c\0\3\0\0\0\7\0\2me"),
        (3, None, b"\0\x0c\0\3\0\0\0\7\xff\xff"),
        (4, "me", b"\0\x0c\0\4\0\0\0\7\0\2me\0"),
        (4, "", b"\0\x0c\0\4\0\0\0\7\0\0\0"),
    ],
)
def test_a_request_header_is_written_and_read(version: int, client_id: str | None, head: bytes) -> None:
    request = HeartbeatRequest(group_id="g")
    frame = b"".join(wire.request_framer(HeartbeatRequest, version, client_id)(request, 7))
    assert frame == (len(frame) - 4).to_bytes(4, "big") + head + wire.encode(request, version)
    assert wire.parse_request_header(frame[4:]) == (12, version, 7, client_id, len(head))


@pytest.mark.parametrize(("version", "header_version"), [(3, 1), (4, 2)])
def test_the_header_is_the_one_of_the_table(version: int, header_version: int) -> None:
    header = RequestHeader(request_api_key=12, request_api_version=version, correlation_id=7, client_id="mé")
    frame = wire.encode(header, header_version)
    assert wire.parse_request_header(frame) == (12, version, 7, "mé", len(frame))
    made = b"".join(wire.request_framer(HeartbeatRequest, version, "mé")(HeartbeatRequest(), 7))
    assert made[4:].startswith(frame)


def test_a_controlled_shutdown_of_version_0_names_no_client() -> None:
    request = ControlledShutdownRequest(broker_id=5)
    frame = b"".join(wire.request_framer(ControlledShutdownRequest, 0, "me")(request, 7))[4:]
    assert frame == b"\0\7\0\0\0\0\0\7" + b"\0\0\0\5"
    assert wire.parse_request_header(frame) == (7, 0, 7, None, 8)


def test_tags_of_a_header_are_skipped() -> None:
    frame = b"\0\x0c\0\4\0\0\0\7\xff\xff" + b"\1\x05\2ab"
    assert wire.parse_request_header(frame) == (12, 4, 7, None, len(frame))


@pytest.mark.parametrize(("key", "version"), [(12, 99), (999, 0), (-1, -1)])
def test_unknown_keys_and_versions_are_left_to_the_caller(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7\xff\xff\0"
    assert wire.parse_request_header(frame)[:4] == (key, version, 7, None)


def test_a_header_that_is_cut_or_claims_too_much_is_refused() -> None:
    frame = b"\0\x0c\0\4\0\0\0\7\0\2me\0"
    for length in range(len(frame)):
        with pytest.raises(wire.DecodeError):
            wire.parse_request_header(frame[:length])
    with pytest.raises(wire.DecodeError, match="the client id claims a length of -2"):
        wire.parse_request_header(b"\0\x0c\0\3\0\0\0\7\xff\xfe")
    with pytest.raises(wire.DecodeError):
        wire.parse_response_header(12, 4, b"\0\0\0\7")


def framed(response: wire.Message, version: int) -> bytes:
    return b"".join(map(wire.in_memory, wire.response_framer(type(response), version)(response, 7)))


@pytest.mark.parametrize(("version", "header_version"), [(3, 0), (4, 1)])
def test_a_response_header_is_written_and_read(version: int, header_version: int) -> None:
    frame = framed(HeartbeatResponse(error_code=25), version)
    head = wire.encode(ResponseHeader(correlation_id=7), header_version)
    body = wire.encode(HeartbeatResponse(error_code=25), version)
    assert frame == len(head + body).to_bytes(4, "big") + head + body
    assert wire.parse_response_header(12, version, frame[4:]) == (7, len(head))


def test_an_answer_to_api_versions_has_the_oldest_header_in_every_version() -> None:
    for version in range(5):
        frame = framed(ApiVersionsResponse(), version)[4:]
        assert wire.parse_response_header(18, version, frame) == (7, 4)
        assert frame[4:] == wire.encode(ApiVersionsResponse(), version)
    request = b"".join(wire.request_framer(ApiVersionsRequest, 3, "me")(ApiVersionsRequest(), 7))[4:]
    assert wire.parse_request_header(request)[-1] == 13


def test_records_go_through_a_frame_uncopied() -> None:
    records = bytes(5000)
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)] * 2)])
    parts = wire.response_framer(FetchResponse, 13)(response, 7)
    assert [part is records for part in parts] == [False, True, False, True, False]
    assert int.from_bytes(wire.in_memory(parts[0])[:4], "big") == sum(map(len, parts)) - 4


def test_the_error_of_a_partition_is_an_error_code() -> None:
    error = wire.ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition = PartitionProduceResponse(error_code=error)
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
    read = wire.decode(ProduceResponse, 9, wire.encode(response, 9))
    found = wire.ErrorCode(read.responses[0].partition_responses[0].error_code)
    assert found is error
    assert found.retriable
    assert not wire.ErrorCode.MESSAGE_TOO_LARGE.retriable
    assert wire.decode(ProduceRequest, 9, wire.encode(ProduceRequest(), 9)) == ProduceRequest()
