from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.net import Turn


class Stage:
    """A turn whose stages and connections note what they do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        self.turn = Turn(asyncio.get_running_loop(), before=self._before, after=self._after)

    def _before(self) -> None:
        self.done.append("before")
        self.before()

    def _after(self) -> None:
        self.done.append("after")
        self.after()


class Line:
    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name

    def flush(self) -> None:
        self.stage.done.append(self.name)


async def play(prepare: Callable[[Stage], None]) -> list[str]:
    stage = Stage()
    prepare(stage)
    for _ in range(5):
        await asyncio.sleep(0)
    return stage.done


def test_what_was_written_leaves_before_the_work_that_waits_for_it() -> None:
    def prepare(stage: Stage) -> None:
        stage.turn.wrote(Line(stage, "first"))
        stage.turn.wrote(Line(stage, "second"))
        stage.before = lambda: stage.turn.wrote(Line(stage, "proposal"))

    assert asyncio.run(play(prepare)) == ["before", "first", "second", "proposal", "after"]


def test_what_comes_of_the_work_leaves_in_the_same_turn() -> None:
    def prepare(stage: Stage) -> None:
        stage.turn.ask()
        stage.after = lambda: stage.turn.wrote(Line(stage, "result"))

    assert asyncio.run(play(prepare)) == ["before", "after", "result"]


def test_a_turn_ends_once_however_often_it_is_asked_to() -> None:
    def prepare(stage: Stage) -> None:
        stage.turn.ask()
        stage.turn.ask()
        stage.before = stage.turn.ask

    assert asyncio.run(play(prepare)) == ["before", "after"]


def test_what_the_work_asks_for_is_done_in_the_next_turn() -> None:
    def prepare(stage: Stage) -> None:
        def once() -> None:
            stage.after = lambda: None
            stage.turn.ask()

        stage.turn.ask()
        stage.after = once

    assert asyncio.run(play(prepare)) == ["before", "after", "before", "after"]


def test_a_connection_that_writes_because_another_was_flushed_is_not_forgotten() -> None:
    class Causing(Line):
        def flush(self) -> None:
            super().flush()
            self.stage.turn.wrote(Line(self.stage, "caused"))

    def prepare(stage: Stage) -> None:
        stage.after = lambda: stage.turn.wrote(Causing(stage, "causing"))
        stage.turn.ask()

    assert asyncio.run(play(prepare)) == ["before", "after", "causing", "caused"]
