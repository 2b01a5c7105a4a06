"""Plans: as few moves as possible, nobody twice, racks apart, and the form of Kafka's own tool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.client.replanning import Layout, PlanError, read_plan, spread, with_factor, without_broker, write_plan

NO_RACKS = dict.fromkeys(range(1, 6))
layouts = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)),
    st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True),
    min_size=1,
).map(lambda replicas: Layout(NO_RACKS, replicas))


@given(layouts, st.integers(1, 5))
def test_a_broker_that_leaves_is_replaced_in_its_place_and_nobody_else_moves(layout: Layout, leaving: int) -> None:
    plan = without_broker(layout, leaving)
    assert plan.keys() == {where for where, replicas in layout.replicas.items() if leaving in replicas}
    for where, replicas in plan.items():
        before = layout.replicas[where]
        assert len(set(replicas)) == len(replicas) == len(before)
        moved = [(old, new) for old, new in zip(before, replicas, strict=True) if old != new]
        assert [old for old, _ in moved] == [leaving]


@given(layouts, st.integers(1, 5))
def test_a_factor_keeps_who_is_there_already(layout: Layout, factor: int) -> None:
    plan = with_factor(layout, ["a"], factor)
    for where, before in layout.replicas.items():
        replicas = plan.get(where, before)
        if where[0] == "a":
            assert len(set(replicas)) == len(replicas) == factor
            shared = min(len(before), factor)
            assert replicas[:shared] == before[:shared]
        else:
            assert where not in plan


def test_what_is_added_goes_to_another_rack_and_then_to_who_has_least() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    layout = Layout(racks, {("t", 0): [1], ("t", 1): [1], ("u", 0): [3]})
    assert with_factor(layout, ["t"], 2) == {("t", 0): [1, 4], ("t", 1): [1, 3]}


def test_what_a_move_takes_from_a_broker_is_given_back_only_if_there_is_no_other() -> None:
    layout = Layout(NO_RACKS, {("t", 0): [1, 2, 4]}, {("t", 0): [3]})
    assert without_broker(layout, 2) == {("t", 0): [1, 5, 4]}
    assert with_factor(layout, ["t"], 4) == {("t", 0): [1, 2, 4, 5]}
    without_five = layout._replace(racks=dict.fromkeys(range(1, 5)))
    assert without_broker(without_five, 2) == {("t", 0): [1, 3, 4]}


@pytest.mark.parametrize(
    ("isr", "factor", "kept"),
    [([1, 2], 1, [1]), ([1, 2], 2, [1, 2]), ([2], 1, [2]), ([2], 2, [1, 2]), ([2, 3], 2, [2, 3]), ([4, 3], 1, [3])],
)
def test_of_fewer_those_who_are_away_go_first_and_then_those_not_in_sync(
    isr: list[int], factor: int, kept: list[int]
) -> None:
    layout = Layout(dict.fromkeys([1, 2, 3, 5]), {("t", 0): [4, 1, 2, 3]}, isr={("t", 0): isr})
    assert with_factor(layout, ["t"], factor) == {("t", 0): kept}


def test_nobody_who_is_away_is_given_anything() -> None:
    layout = Layout(dict.fromkeys([1, 2, 3]), {("t", 0): [4, 1], ("t", 1): [3]})
    assert with_factor(layout, ["t"], 3) == {("t", 0): [4, 1, 2], ("t", 1): [3, 1, 2]}


def test_spreading_uses_only_the_brokers_that_were_named() -> None:
    layout = Layout(NO_RACKS, {("t", number): [1, 2] for number in range(4)})
    plan = spread(layout, ["t"], [3, 4, 5], start=1, shift=0)
    assert {broker for replicas in plan.values() for broker in replicas} == {3, 4, 5}
    assert [replicas[0] for _, replicas in sorted(plan.items())] == [4, 5, 3, 4]


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (lambda layout: without_broker(layout, 1), "there are 1 brokers"),
        (lambda layout: with_factor(layout, ["t"], 3), "3 replicas need as many brokers"),
        (lambda layout: spread(layout, ["t"], [1], start=0, shift=0), "1 brokers cannot hold them"),
        (lambda layout: spread(layout, ["t"], [1, 9], start=0, shift=0), "there is no broker 9"),
    ],
)
def test_what_cannot_be_planned_is_refused(attempt: object, reason: str) -> None:
    assert callable(attempt)
    with pytest.raises(PlanError, match=reason):
        attempt(Layout({1: None, 2: None}, {("t", 0): [1, 2]}))


@given(layouts)
def test_plans_are_read_as_they_were_written(layout: Layout) -> None:
    assert read_plan(write_plan(dict(layout.replicas))) == layout.replicas


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"partitions": [{}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": 1}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}, {"topic": "t", "partition": 0, "replicas": [2]}]}',
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"not a plan: it has to have the form|is named twice"):
        read_plan(text)
