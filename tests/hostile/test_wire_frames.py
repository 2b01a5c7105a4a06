"""Frames that were cut, changed or made up raise one exception, and cost memory in proportion to their size."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from random import Random

import pytest

from ottla import wire
from ottla.wire.codec import Decoder
from ottla.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from tests.messages import Samples, all_versions

VERSIONS = list(all_versions())
SHARE_BYTES_MAX = 400
"""What one byte of a frame may cost: an object with all its slots for an element of a few bytes."""
CONSTANT_BYTES_MAX = 100_000
LURES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80", b"\xff\xff", b"\xff" * 12, b"\0")


def _harmed(frame: bytes, random: Random) -> bytes:
    """The frame with one of the things that go wrong."""
    at = random.randrange(len(frame) + 1)
    match random.randrange(4):
        case 0:
            return frame[:at]
        case 1:
            return frame[:at] + random.choice(LURES) + frame[at:]
        case 2:
            lure = random.choice(LURES)
            return frame[:at] + lure + frame[at + len(lure) :]
        case _:
            changed = bytearray(frame)
            for _ in range(random.randint(1, 4)):
                if changed:
                    changed[random.randrange(len(changed))] = random.randrange(256)
            return bytes(changed)


def _survives(name: str, version: int, random: Random) -> None:
    cls = wire.message_class(name)
    frame = _harmed(wire.encode(Samples(random).message(name, version), version), random)
    with suppress(wire.DecodeError):
        wire.decode(cls, version, frame)
    with suppress(wire.DecodeError):
        wire.parse_request_header(frame)


def test_harmed_frames_raise_one_exception() -> None:
    for seed, (name, version) in enumerate(VERSIONS):
        random = Random(seed)
        for _ in range(8):
            _survives(name, version, random)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_harmed_frames_raise_one_exception() -> None:
    for seed, (name, version) in enumerate(VERSIONS):
        random = Random(seed)
        for _ in range(1000):
            _survives(name, version, random)


def test_lures_cost_memory_in_proportion_to_the_frame() -> None:
    random = Random(7)
    for name, version in VERSIONS:
        cls = wire.message_class(name)
        decode = wire.decoder(cls, version)
        frame = wire.encode(Samples(random).message(name, version), version)
        for lure in LURES:
            at = random.randrange(len(frame) + 1)
            _costs_little(decode, frame[:at] + lure + frame[at:])


@pytest.mark.parametrize("filler", [b"\0", b"\1", b"\2", b"\xff"])
def test_long_frames_of_one_byte_cost_memory_in_proportion(filler: bytes) -> None:
    for name, version in VERSIONS:
        _costs_little(wire.decoder(wire.message_class(name), version), b"\0\0\x7f\xff" + filler * 5000)


def test_a_claim_of_many_fixed_elements_costs_nothing() -> None:
    # These are read all at once, so a claim that is believed would be paid before the first element is missed.
    frame = wire.encode(BrokerHeartbeatRequest(), 1)
    assert frame[-1] == 0
    _costs_little(wire.decoder(BrokerHeartbeatRequest, 1), frame[:-1] + b"\1\0\4" + b"\xff\xff\xff\x0f")


def _costs_little(decode: Decoder[wire.Message], frame: bytes) -> None:
    tracemalloc.start()
    try:
        with suppress(wire.DecodeError):
            decode(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(frame) * SHARE_BYTES_MAX + CONSTANT_BYTES_MAX
