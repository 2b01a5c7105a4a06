"""A reset worked out for what the group has committed, though some of it is gone."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.cli.client import resetting
from ottla.cli.client.resets import Place, parse_place

COMMITTED = {("there", 0): 5, ("there", 7): 6, ("gone", 0): 7}


@pytest.mark.parametrize(("wanted", "new"), [(parse_place("start", now_ms=0), 0), (Place(shift=2), 7)])
def test_what_is_gone_is_left_out(monkeypatch: pytest.MonkeyPatch, wanted: Place, new: int) -> None:
    asked: list[tuple[str, int]] = []

    def ends(_: object, partitions: Iterable[tuple[str, int]], *__: object) -> dict[tuple[str, int], int]:
        asked.extend(partitions)
        return {("there", 0): 0 if len(asked) == 1 else 10}

    committed = {where: SimpleNamespace(offset=offset) for where, offset in COMMITTED.items()}
    monkeypatch.setattr(resetting, "committed_offsets", lambda *_: committed)
    monkeypatch.setattr(resetting, "list_offsets", ends)
    topics = {"there": SimpleNamespace(partitions={0: None})}
    connection = SimpleNamespace(admin=None, cluster=SimpleNamespace(topics=topics))
    rows = resetting.plan_reset(cast("Any", SimpleNamespace(timeout_s=1)), cast("Any", connection), "g", {}, wanted, 0)
    found = {(row["topic"], row["partition"]): row["new_offset"] for row in rows}
    assert found == {("there", 0): new, ("there", 7): None, ("gone", 0): None}
    assert set(asked) == {("there", 0)}, "who asks for what is gone is told nothing of the rest"
