"""What is worked out for a page of metrics, rather than read."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.broker.metrics import Paces


def test_counters_grow_so_fast_between_two_scrapes(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("ottla.broker.metrics.requests.time", SimpleNamespace(perf_counter=lambda: now_s))
    paces = Paces()
    inner, outer = (("listener", "IN"),), (("listener", "OUT"),)
    now_s = 110.0
    assert paces.per_second("creation", inner, 5) == 0.5, "since the broker began"
    now_s = 112.0
    assert paces.per_second("creation", inner, 9) == 2
    assert paces.per_second("creation", outer, 12) == 1
    assert paces.per_second("close", inner, 0) == 0
    assert paces.per_second("creation", inner, 9) == 0
