"""What ``ottla collect`` tells: where it listens, how it goes, and what was done."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.client.connection import FAILED, INTERRUPTED

if TYPE_CHECKING:
    from ottla.collect.collector import Collector
    from ottla.collect.opening import Opened
    from ottla.collect.progress import State

_TERMINAL_S = 0.5


class View:
    def __init__(self, *, interval_s: float, quiet: bool) -> None:
        self._is_terminal = sys.stderr.isatty()
        self.interval_s = _TERMINAL_S if self._is_terminal else interval_s
        self._quiet = quiet
        self._last: tuple[float, State] | None = None
        self._width = 0
        self._signal: int | None = None
        self._began_s = time.monotonic()

    def ready(self, opened: Sequence[Opened]) -> None:
        """The one line on stdout: whoever started this waits for it."""
        told = [each.told() if len(opened) == 1 else f"{each.plan.topic}: {each.told()}" for each in opened]
        click.echo(f"collecting: {'; '.join(told)}")

    def show(self, now: State) -> None:
        from ottla.collect.progress import State, line

        at_s = time.monotonic()
        before_s, before = self._last or (self._began_s, State())
        self._last = at_s, now
        if self._quiet:
            return
        text = line(before, now, at_s - before_s)
        if self._is_terminal:
            click.echo("\r" + text.ljust(self._width), nl=False, err=True)
            self._width = len(text)
        elif now != before:
            click.echo(text, err=True)

    def stopping(self, number: int, collector: Collector) -> None:
        self._signal = number
        collector.stop()

    def end(self, state: State) -> None:
        from ottla.collect.progress import summary

        if self._width:
            click.echo("", err=True)
        if not self._quiet:
            click.echo(summary(state), err=True)
        if self._signal == signal.SIGINT:
            sys.exit(INTERRUPTED)
        if self._signal is None and state.waiting:
            sys.exit(FAILED)
