"""Frames that Apache Kafka 3.9.1 brokers and their clients sent each other, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla import wire
from ottla.wire.messages.k18_api_versions import ApiVersionsResponse

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-frames.jsonl"
FRAMES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
FILLERS = {("Metadata", 12): 3}
"""librdkafka leaves bytes behind the last field of this request."""


def _title(frame: dict[str, Any]) -> str:
    return f"{frame['api']}-v{frame['version']}-{len(frame['request']) // 2}"


@pytest.mark.parametrize("golden", FRAMES, ids=_title)
def test_a_request_is_read_and_written_byte_for_byte(golden: dict[str, Any]) -> None:
    frame = bytes.fromhex(golden["request"])
    key, version, correlation_id, client_id, pos = wire.parse_request_header(frame)
    api = wire.APIS[wire.ApiKey(key)]
    assert (api.name, version) == (golden["api"], golden["version"])
    request = wire.decode(api.request, version, frame, pos)
    written = b"".join(wire.request_framer(api.request, version, client_id)(request, correlation_id))
    assert int.from_bytes(written[:4], "big") == len(written) - 4
    filler = len(frame) - (len(written) - 4)
    assert written[4:] == frame[: len(frame) - filler]
    assert filler in (0, FILLERS.get((api.name, version), 0))


@pytest.mark.parametrize("golden", [frame for frame in FRAMES if frame["response"]], ids=_title)
def test_a_response_is_read_and_written_byte_for_byte(golden: dict[str, Any]) -> None:
    frame, version = bytes.fromhex(golden["response"]), golden["version"]
    api = wire.APIS[golden["key"]]
    correlation_id, pos = wire.parse_response_header(api.key, version, frame)
    response = wire.decode(api.response, version, frame, pos)
    written = b"".join(map(wire.in_memory, wire.response_framer(api.response, version)(response, correlation_id)))
    assert written == len(frame).to_bytes(4, "big") + frame


def test_every_version_that_kafka_advertised_is_in_the_table() -> None:
    golden = next(frame for frame in FRAMES if frame["api"] == "ApiVersions" and frame["response"])
    frame = bytes.fromhex(golden["response"])
    _, pos = wire.parse_response_header(18, golden["version"], frame)
    answer = wire.decode(ApiVersionsResponse, golden["version"], frame, pos)
    assert len(answer.api_keys) > 50
    for told in answer.api_keys:
        versions = wire.APIS[wire.ApiKey(told.api_key)].versions
        assert told.min_version in versions
        assert told.max_version in versions
