"""What Apache Kafka 3.9.1 keeps in ``__consumer_offsets`` and ``__transaction_state``, byte for byte.

The key and the value of a record each begin with an int16, which is the version and, in keys, says what it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla import wire
from ottla.wire.messages.group_metadata import GroupMetadataValue
from ottla.wire.messages.offset_commit import OffsetCommitKey

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-stored-records.jsonl"
STORED = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
NAMES = {
    ("__consumer_offsets", 1): "OffsetCommit",
    ("__consumer_offsets", 2): "GroupMetadata",
    ("__transaction_state", 0): "TransactionLog",
}


def _read(name: str, stored: bytes) -> wire.Message:
    return wire.decode(wire.message_class(name), int.from_bytes(stored[:2], "big"), stored, 2)


def _name(record: dict[str, str]) -> str:
    return NAMES[record["topic"], int(record["key"][:4], 16)]


@pytest.mark.parametrize("record", STORED, ids=_name)
def test_a_stored_record_is_read_and_written_byte_for_byte(record: dict[str, str]) -> None:
    for part, text in (("Key", record["key"]), ("Value", record["value"])):
        if text is not None:  # a tombstone
            stored = bytes.fromhex(text)
            version = int.from_bytes(stored[:2], "big")
            assert stored[:2] + wire.encode(_read(_name(record) + part, stored), version) == stored


def test_the_values_are_what_the_groups_did() -> None:
    committed = [
        _read("OffsetCommitKey", bytes.fromhex(record["key"])) for record in STORED if _name(record) == "OffsetCommit"
    ]
    assert {key.group for key in committed if isinstance(key, OffsetCommitKey)} >= {"plain", "static", "txgroup"}
    groups = [record["value"] for record in STORED if _name(record) == "GroupMetadata" and record["value"]]
    states = [_read("GroupMetadataValue", bytes.fromhex(value)) for value in groups]
    assert {state.protocol_type for state in states if isinstance(state, GroupMetadataValue)} == {"consumer"}
