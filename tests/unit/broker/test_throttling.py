"""Which replicas are throttled, and when they are held back."""

from __future__ import annotations

import pytest

from ottla.broker.throttling import is_throttled
from ottla.replica.throttle import Throttle


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


def exceeded(throttle: Throttle) -> bool:
    return throttle.is_exceeded


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ("", []),
        ("*", [0, 1, 2]),
        ("0:1,2:1", [0, 2]),
        ("0:2,1:1,2:3", [1]),
        (" 0:1 , 1:2", [0]),
        ("none", []),
        ("0,1:", []),
        ("0:1:1,:1,a:1,-1:1", []),
    ],
)
def test_a_broker_finds_its_own_among_the_throttled_replicas(replicas: str, expected: list[int]) -> None:
    assert [number for number in range(3) if is_throttled(replicas, 1, number)] == expected


def test_the_rate_holds_from_the_first_second_on() -> None:
    time = Time()
    throttle = Throttle(time, 1000, samples=11, window_ms=1000)
    assert not exceeded(throttle)
    throttle.record(1000)
    assert not exceeded(throttle)
    throttle.record(1)
    assert exceeded(throttle)


def test_time_and_a_new_rate_let_go() -> None:
    time = Time()
    throttle = Throttle(time, 1000, samples=11, window_ms=1000)
    throttle.record(5000)
    time.now_s += 4.9
    assert exceeded(throttle)
    time.now_s += 0.1
    assert not exceeded(throttle)
    throttle.record(5000)
    assert exceeded(throttle)
    throttle.rate = 2000
    assert not exceeded(throttle)


def test_what_was_used_before_all_windows_is_forgotten() -> None:
    time = Time()
    throttle = Throttle(time, 1, samples=3, window_ms=1000)
    throttle.record(1_000_000)
    time.now_s += 2.9
    assert exceeded(throttle)
    time.now_s += 0.1
    assert not exceeded(throttle)
