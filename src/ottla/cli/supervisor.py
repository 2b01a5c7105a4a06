"""Starting the processes of a cluster, watching them, and stopping them.

The supervisor decides nothing about the cluster: servers find each other by their own configuration. It starts
processes, waits until each one serves, says so, and passes on the wish to stop. A child that dies is reported and stays
dead: bringing it back unasked would hide the failure that this was meant to survive.

Children live in sessions of their own, so that Ctrl-C reaches only the supervisor, which then stops them in order.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ottla.base.errors import Error
from ottla.cli.plan import ProcessPlan, Role, parse_address
from ottla.cli.processes import Identity, end, identify
from ottla.cli.serving import condition
from ottla.cli.state import Process, State

READY_TIMEOUT_S = 180.0
GRACE_S = 30.0
LOOK_EVERY_S = 0.01
ADOPTED_EVERY_S = 0.5
"""How often to look after processes that ``ottla restart`` started, whose end nobody reports."""
LINES_QUOTED = 20
"""Of a log that goes with the processes."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StartError(Error):
    """The cluster did not come up."""


class StoppedError(Exception):
    """Somebody asked for the end while the cluster was still starting."""


class Signals:
    """Signals as something to wait for, beside a timeout."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    @classmethod
    @contextlib.contextmanager
    def caught(cls) -> Iterator[Signals]:
        """Catch the signals that stop a program, and the end of children, for as long as the block runs."""
        signals = cls()
        handlers = {number: signal.signal(number, lambda *_: None) for number in (*_STOP_SIGNALS, signal.SIGCHLD)}
        before = signal.set_wakeup_fd(signals._writer)
        try:
            yield signals
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(signals._reader)
            os.close(signals._writer)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until a signal comes or the time is over; says whether one of them asks to stop."""
        readable, _, _ = select.select([self._reader], [], [], timeout_s)
        received = os.read(self._reader, 4096) if readable else b""
        return any(number in _STOP_SIGNALS for number in received)


class Child:
    """A process that this one started, for as long as both live."""

    def __init__(self, plan: ProcessPlan, *, log_stays: bool = True) -> None:
        self.plan = plan
        self._log_stays = log_stays
        # -P: a folder named ottla in the current one must not be taken for the program.
        with plan.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ottla", *plan.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.identity = identify(self._process.pid)

    def records(self) -> list[Process]:
        """What the folder is told of it."""
        return [
            Process(
                role.name,
                role.id,
                self.identity,
                str(role.address),
                role.metrics,
                self.plan.arguments,
                str(self.plan.log_file),
            )
            for role in self.plan.roles
        ]

    def has_ended(self) -> bool:
        return self._process.poll() is not None  # which also takes away the remains

    def wait(self) -> None:
        self._process.wait()

    def wait_serving(
        self, signals: Signals, deadline: float, is_enough: Callable[[Role], bool] = lambda _role: False
    ) -> bool:
        """Wait until it serves in all its roles, or until one is as far as it gets for now; says whether it serves."""
        for role in self.plan.roles:
            while condition(role) is None:
                if is_enough(role):
                    return False
                if self.has_ended():
                    raise StartError(self.last_words())
                if time.monotonic() > deadline:
                    reason = f"does not serve after {READY_TIMEOUT_S:g} s{self._log()}"
                    raise StartError(f"{role} (pid {self.identity.pid}) {reason}")
                if signals.wait(LOOK_EVERY_S):
                    raise StoppedError
        return True

    def last_words(self) -> str:
        code, lines = self._process.returncode, self._lines()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        said = f": {lines[-1]}" if lines and code >= 0 else ""
        roles = " and ".join(map(str, self.plan.roles))
        return f"{roles} (pid {self.identity.pid}) {how}{said}{self._log()}"

    def _log(self) -> str:
        """Where the log is; of one that is gone before anybody can look, how it ends."""
        if self._log_stays:
            return f" (log: {self.plan.log_file})"
        lines = self._lines()[-LINES_QUOTED:]
        return "".join(["; its log ends with", *(f"\n  {line}" for line in lines)]) if lines else ""

    def _lines(self) -> list[str]:
        log = self.plan.log_file
        return log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []


def planned_again(records: Sequence[Process]) -> ProcessPlan:
    """The plan of a process, from what the folder was told of it."""
    roles = tuple(Role(each.role, each.id, parse_address(each.address), each.metrics) for each in records)
    return ProcessPlan(records[0].arguments, Path(records[0].log_file), roles)


class Supervisor:
    """The processes of one cluster, as long as this process watches over them."""

    def __init__(self, state: State, signals: Signals) -> None:
        self._state = state
        self._signals = signals
        self._children: list[Child] = []

    def start(self, plans: Sequence[ProcessPlan]) -> None:
        """Start every process and wait until each one serves."""
        for plan in plans:
            child = Child(plan, log_stays=self._state.temporary is None)
            self._children.append(child)
            self._state.processes += child.records()
            self._state.save()
        deadline = time.monotonic() + READY_TIMEOUT_S
        for child in self._children:
            child.wait_serving(self._signals, deadline)

    def watch(self) -> int:
        """Stay until somebody asks to stop, or until nothing is left to watch."""
        while not self._signals.wait(None if self._children else ADOPTED_EVERY_S):
            for child in [child for child in self._children if child.has_ended()]:
                self._children.remove(child)
                print(child.last_words(), file=sys.stderr, flush=True)
            if not self._children and not self._known().alive():
                print("every process of the cluster has ended", file=sys.stderr)
                return 1
        return 0

    def stop(self) -> None:
        """Stop all processes: at leisure at first, at once when somebody insists."""
        insisted = False
        for identities in self._known().stopping_order():
            for identity in identities:
                identity.send(signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S
            while not insisted and time.monotonic() < deadline and self._any_running(identities):
                insisted = self._signals.wait(0.05)
            end(identities, 0)
        for child in self._children:
            child.wait()

    def _known(self) -> State:
        """What runs now: since the start, somebody may have started a process again."""
        return State.load(self._state.folder) or self._state

    def _any_running(self, identities: Sequence[Identity]) -> bool:
        for child in self._children:
            child.has_ended()
        return any(identity.is_alive() for identity in identities)
