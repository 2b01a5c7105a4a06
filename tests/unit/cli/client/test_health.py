from __future__ import annotations

from ottla.cli.client.health import problems
from ottla.cli.client.operating import Partition

THREE = {1, 2, 3}


def test_a_broker_that_is_away_is_told_of_once_whatever_it_held() -> None:
    partitions = {("t", number): Partition(1, [1, 2, 3], [1, 3]) for number in range(3)}
    assert list(problems(partitions, {1, 3}, {"t": 2}, ())) == [("broker 2", "is away, with replicas of 3 partitions")]


def test_what_cannot_be_written_or_is_led_by_nobody_is_told_of_for_each_partition() -> None:
    partitions = {("t", 0): Partition(-1, [2], [2]), ("t", 1): Partition(1, [1, 2], [1])}
    assert list(problems(partitions, {1, 3}, {"t": 2}, ())) == [
        ("broker 2", "is away, with replicas of 2 partitions"),
        ("t-0", "nobody leads it"),
        ("t-1", "fewer in sync than min.insync.replicas: [1]"),
    ]


def test_who_is_there_and_behind_is_told_of_unless_it_is_on_its_way() -> None:
    partitions = {("t", 0): Partition(1, [1, 2, 3], [1]), ("t", 1): Partition(1, [1, 2, 3], [1])}
    behind = [("t-0", "in sync are [1] of [1, 2, 3]")]
    assert list(problems(partitions, THREE, {}, {("t", 1)})) == behind
    assert list(problems(partitions, {1, 2}, {}, {("t", 1)}))[1:] == behind


def test_a_cluster_without_a_problem_has_none() -> None:
    assert list(problems({("t", 0): Partition(1, [1, 2], [2, 1])}, THREE, {"t": 2}, ())) == []
