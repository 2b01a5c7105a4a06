"""The generator: what it sends is what its truth counts."""

from __future__ import annotations

import json
from collections import Counter

from ottla.pipeline.traffic import KINDS_BY_TOPIC, make_traffic

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def test_the_same_seed_gives_the_same_records_and_another_one_others() -> None:
    first, again, other = (make_traffic(seed, start_ms=START_MS, minutes=60, events=500) for seed in (7, 7, 8))
    assert first == again
    assert first.arrivals != other.arrivals


def test_every_record_is_accounted_for_once() -> None:
    traffic = make_traffic(3, start_ms=START_MS, minutes=180, events=4000, prefix="site.")
    truth = traffic.truth
    assert len(traffic.arrivals) == truth.records
    assert truth.records == truth.events + truth.robots + truth.copies + sum(truth.dead.values())
    assert set(truth.dead) == {"malformed", "id", "kind", "time", "future", "field", "late"}
    assert min(truth.robots, truth.copies, *truth.dead.values()) > 0
    assert {one.topic for one in traffic.arrivals} == {f"site.{topic}" for topic in KINDS_BY_TOPIC}
    assert [one.at_ms for one in traffic.arrivals] == sorted(one.at_ms for one in traffic.arrivals)


def test_the_totals_of_the_truth_agree_with_each_other() -> None:
    truth = make_traffic(3, start_ms=START_MS, minutes=180, events=4000).truth
    assert sum(views for views, _ in truth.pages.values()) == truth.kinds["view"]
    assert sum(views for _, _, views in truth.sessions) == truth.kinds["view"]
    assert sum(shown for shown, _ in truth.ads.values()) == truth.kinds["impression"]
    assert 0 < sum(clicked for _, clicked in truth.ads.values()) <= truth.kinds["ad_click"]
    assert sum(truth.searches.values()) == truth.kinds["search"]
    assert sum(logs for logs, _, _ in truth.services.values()) == truth.kinds["log"]
    steps = Counter[str]()
    for (_, step), sessions in truth.funnel.items():
        steps[step] += sessions
    assert steps["visit"] >= steps["product"] >= steps["cart"] >= steps["order"] > 0


def test_copies_are_copies_and_arrive_before_they_would_be_too_late() -> None:
    traffic = make_traffic(5, start_ms=START_MS, minutes=180, events=4000, late_ms=HOUR_MS)
    times = Counter(one.value for one in traffic.arrivals)
    assert sum(count - 1 for count in times.values()) == traffic.truth.copies
    for one in traffic.arrivals:
        if times[one.value] > 1:
            at = json.loads(one.value)["time"]
            if str(at).isdecimal():
                assert 0 < one.at_ms - int(at) < HOUR_MS
