"""Epochs that start with their counter nearly used up, so that the 32 bits of it come to an end in no time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from ottla.keeper.quorum import history, leading
from ottla.keeper.quorum.history import COUNTER_MAX, counter_of, epoch_of


@contextmanager
def epochs_of(length: int | None) -> Iterator[None]:
    """Let every epoch have room for ``length`` transactions; None leaves it at 2**32 - 1."""
    if length is None:
        yield
        return
    first = COUNTER_MAX - length + 1
    follows = history.follows

    def follows_too(previous: int, zxid: int) -> bool:
        return follows(previous, zxid) or (epoch_of(zxid) > epoch_of(previous) and counter_of(zxid) == first)

    with (
        patch.object(history, "follows", follows_too),
        patch.object(leading, "first_of", lambda epoch: epoch << 32 | first),
        patch.object(leading, "counter_of", lambda zxid: counter_of(zxid) if counter_of(zxid) >= first else 0),
    ):
        yield
