"""A disk that fails on purpose: at the n-th call the process dies, the power goes, or the disk refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.keeper.store.faults import CHANGING, CrashError, PowerLoss

__all__ = ["CrashError", "PowerLoss", "failing_at"]


@contextmanager
def failing_at(
    call: int,
    patch: pytest.MonkeyPatch,
    failure: BaseException,
    names: tuple[str, ...] = CHANGING,
    *,
    for_good: bool = True,
) -> Iterator[Callable[[], bool]]:
    """Let the ``call``-th change of the disk, counted from 0, raise ``failure``, and, ``for_good``, all after it.

    A write gets half of its bytes onto the disk first: that is how a full disk and a killed process tear one. Yields
    whether it has come to that.
    """
    made = 0
    os_pwrite = os.pwrite

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            if name == "open" and not args[1] & (os.O_CREAT | os.O_TRUNC):
                return real(*args, **kwargs)
            if made == call and name in ("pwrite", "pwritev"):
                data = bytes(args[1]) if name == "pwrite" else b"".join(args[1])
                os_pwrite(args[0], data[: len(data) // 2], args[2])
            made += 1
            if made == call + 1 or (for_good and made > call):
                raise failure
            return real(*args, **kwargs)

        return wrapped

    with patch.context() as inner:
        for name in names:
            inner.setattr(os, name, wrap(name, getattr(os, name)))
        yield lambda: made > call
