from __future__ import annotations

import time

from ottla.base.clock import Clock, ManualClock, SystemClock


def test_system_clock_reads_the_machine() -> None:
    clock: Clock = SystemClock()
    before = time.monotonic()
    assert before <= clock.monotonic() <= time.monotonic()
    assert abs(clock.wall_ms() - time.time() * 1000) < 1000


def test_manual_clock_stands_still_until_moved() -> None:
    clock: Clock = ManualClock()
    assert isinstance(clock, ManualClock)
    before = clock.monotonic(), clock.wall_ms()
    assert (clock.monotonic(), clock.wall_ms()) == before
    clock.advance(1.5)
    assert (clock.monotonic(), clock.wall_ms()) == (before[0] + 1.5, before[1] + 1500)


def test_a_jump_of_the_wall_clock_moves_only_the_wall_clock() -> None:
    clock = ManualClock(monotonic=7.0)
    wall_ms = clock.wall_ms()
    clock.jump_wall(-3_600_000)
    assert clock.monotonic() == 7.0
    assert clock.wall_ms() == wall_ms - 3_600_000
