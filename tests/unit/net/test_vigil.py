"""A loop of callbacks under a clock that stands still: what is waited for, for how long, and when not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.net.vigil import AWAY_US, CALM, MISSES_MAX, PASSED_MAX, Vigil

WINDOW_US = 100


class Night:
    """The callbacks of a loop, called when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, window_us: int = WINDOW_US) -> None:
        self.now_s = 0.0
        self.others_take_us = 0.0
        self.gave_way = 0
        self.soon: list[Callable[[], object]] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        self.vigil = Vigil(window_us, give_way=self.give_way, now=lambda: self.now_s)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def give_way(self) -> None:
        self.gave_way += 1
        self.now_s += self.others_take_us / 1e6

    def turn(self, after_us: float = 1.0) -> None:
        self.now_s += after_us / 1e6
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()

    def is_awake(self) -> bool:
        return bool(self.soon)

    def message(self, after_us: float = 1.0) -> None:
        """The next message comes so late, and the loop has its turn."""
        self.now_s += after_us / 1e6
        self.vigil.heard()
        self.turn()

    def pass_until_awake(self) -> int:
        """How many messages come that it does not stay awake for."""
        for passed in range(2 * PASSED_MAX):
            self.vigil.heard()
            if self.is_awake():
                return passed
        pytest.fail("it never wakes up again")


def test_it_looks_for_the_next_message_for_a_while_and_then_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch)
    assert not night.is_awake()
    night.vigil.heard()
    for _ in range(9):
        assert night.is_awake()
        night.turn(10)
    assert night.is_awake()
    night.turn(11)
    assert not night.is_awake()


def test_a_message_in_time_has_it_look_for_the_one_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch)
    for _ in range(1000):
        night.message(WINDOW_US - 10)
        assert night.is_awake()
    assert len(night.soon) == 1, "nobody looks twice"


def test_after_looking_in_vain_twice_as_many_pass_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    night, passed = Night(monkeypatch), []
    for _ in range(MISSES_MAX + 2):
        passed.append(night.pass_until_awake())
        night.turn(WINDOW_US + 1)
    assert passed == [0, *(min((1 << misses) - 1, PASSED_MAX) for misses in range(1, MISSES_MAX + 2))]


def test_a_single_message_in_time_ends_the_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch)
    for _ in range(5):
        night.pass_until_awake()
        night.turn(WINDOW_US + 1)
    assert night.pass_until_awake() == 31
    night.message()
    night.turn(WINDOW_US + 1)
    assert night.pass_until_awake() == 1


def test_others_may_run_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch)
    night.vigil.heard()
    for _ in range(5):
        night.turn()
    assert night.gave_way == 5
    night.message()
    assert night.gave_way == 5, "there is something to do"


def test_a_client_that_runs_meanwhile_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch)
    night.others_take_us = AWAY_US - 1
    night.vigil.heard()
    for _ in range(100):
        night.turn()
        night.message()
        assert night.is_awake()
    assert night.gave_way == 100


def test_it_makes_room_for_others_that_run_for_long_the_longer_the_more(monkeypatch: pytest.MonkeyPatch) -> None:
    night, passed = Night(monkeypatch), []
    night.others_take_us = AWAY_US + 1
    for _ in range(7):
        passed.append(night.pass_until_awake())
        night.turn()
        assert not night.is_awake()
    assert passed == [0, 64, 128, 256, 512, 1023, 1023]
    assert night.pass_until_awake() == PASSED_MAX
    for _ in range(CALM):
        night.message()
    night.turn()
    assert night.pass_until_awake() == 2 * CALM, "it begins anew"


def test_a_message_now_and_then_does_not_make_it_forget_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    night, passed = Night(monkeypatch), []
    night.others_take_us = AWAY_US + 1
    for _ in range(3):
        passed.append(night.pass_until_awake())
        for _ in range(CALM - 1):
            night.message()
        night.turn()
        assert not night.is_awake()
    assert passed == [0, 64, 128]


def test_it_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch, window_us=0)
    night.message()
    assert not night.is_awake()


def test_a_real_loop_hears_what_comes_in_time_and_goes_to_sleep() -> None:
    async def story() -> list[bool]:
        now_s, seen = 0.0, []
        vigil = Vigil(WINDOW_US, give_way=lambda: None, now=lambda: now_s)
        for _ in range(3):
            vigil.heard()
            await asyncio.sleep(0)
            seen.append(vigil._is_looking)
        now_s = 1.0
        await asyncio.sleep(0)
        return [*seen, vigil._is_looking]

    assert asyncio.run(story()) == [True, True, True, False]
