"""A child process that is told things by lines, and tells things by lines."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class Conversation:
    """Runs a program; ``heard`` is every line it said so far."""

    def __init__(self, command: Sequence[str | Path], *, log: Path, cwd: Path | None = None) -> None:
        self.heard: list[str] = []
        self._changed = threading.Condition()
        self._errors = log.open("wb")
        self._child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=cwd,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._changed:
                self.heard.append(line.rstrip("\n"))
                self._changed.notify_all()

    def say(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()

    def mark(self) -> int:
        """Where the conversation stands; ``hear`` can be asked for what is said after."""
        return len(self.heard)

    def hear(self, *wanted: str, timeout_s: float, since: int = 0) -> str:
        """Waits for a line that starts with one of ``wanted``, and gives it."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                for line in self.heard[since:]:
                    if line.startswith(wanted):
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or self._child.poll() is not None:
                    said = "\n  ".join(self.heard[-40:])
                    raise TimeoutError(f"nobody said {' or '.join(wanted)} within {timeout_s:g} s, but:\n  {said}")
                self._changed.wait(min(left, 0.5))

    def ask(self, line: str, *wanted: str, timeout_s: float) -> str:
        """Says a line and waits for what answers it."""
        since = self.mark()
        self.say(line)
        return self.hear(*wanted, timeout_s=timeout_s, since=since)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.wait(120)
        self._reader.join(120)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._errors.close()
