"""Whatever a message holds, what was written is what is read, in every version."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla import wire
from ottla.wire import table
from tests.messages import Samples, all_versions, every_version

VERSIONS = list(all_versions())


def _holds(name: str, version: int, random: Random) -> None:
    message = Samples(random).message(name, version)
    frame = wire.encode(message, version)
    read = wire.decode(type(message), version, frame)
    assert read == message
    assert wire.encode(read, version) == frame
    assert wire.decode(type(message), version, memoryview(b"xx" + frame + b"trailing"), 2) == message


@pytest.mark.parametrize("name", table.names())
def test_every_message_comes_back_in_every_version(name: str) -> None:
    for version in every_version(name):
        for seed in range(3):
            _holds(name, version, Random(seed))


@given(which=st.sampled_from(VERSIONS), random=st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_any_message_comes_back(which: tuple[str, int], random: Random) -> None:
    _holds(*which, random)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_messages_come_back() -> None:
    for name, version in VERSIONS:
        for seed in range(100):
            _holds(name, version, Random(seed))
