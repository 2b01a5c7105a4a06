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
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.base.errors import Error
from ottla.cli.plan import KeeperPlan
from ottla.cli.processes import Identity, end, identify, mode
from ottla.cli.state import Process, State

READY_TIMEOUT_S = 60.0
GRACE_S = 10.0
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


class Supervisor:
    """The processes of one cluster, as long as this process watches over them."""

    def __init__(self, state: State, signals: Signals) -> None:
        self._state = state
        self._signals = signals
        self._children: dict[Identity, tuple[subprocess.Popen[bytes], KeeperPlan]] = {}

    def start(self, plans: Sequence[KeeperPlan], *, insecure: bool) -> None:
        """Start every keeper and wait until each one serves clients."""
        for plan in plans:
            self._start_keeper(plan, insecure=insecure)
        deadline = time.monotonic() + READY_TIMEOUT_S
        for identity, (child, plan) in self._children.items():
            self._wait_serving(identity, child, plan, deadline)

    def watch(self) -> int:
        """Stay until somebody asks to stop, or until nothing is left to watch."""
        while self._children:
            if self._signals.wait(None):
                return 0
            for identity, (child, plan) in list(self._children.items()):
                if child.poll() is not None:
                    del self._children[identity]
                    print(f"keeper {plan.id} {_last_words(child, plan.log_file)}", file=sys.stderr, flush=True)
        print("every process of the cluster has ended", file=sys.stderr)
        return 1

    def stop(self) -> None:
        """Stop all children: at leisure at first, at once when somebody insists."""
        identities = self._state.identities()
        for identity in identities:
            identity.send(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        insisted = False
        while not insisted and time.monotonic() < deadline and self._any_running():
            insisted = self._signals.wait(0.05)
        end(identities, 0)
        for child, _ in self._children.values():
            child.wait()

    def _any_running(self) -> bool:
        # poll() also takes away the remains of children that have ended.
        running = [child for child, _ in self._children.values() if child.poll() is None]
        return bool(running)

    def _start_keeper(self, plan: KeeperPlan, *, insecure: bool) -> None:
        # -P: a folder named ottla in the current one must not be taken for the program.
        command = [sys.executable, "-P", "-m", "ottla", "keeper", os.fspath(plan.config_file)]
        with plan.log_file.open("ab") as log:
            child = subprocess.Popen(
                command + ["--insecure"] * insecure,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        identity = identify(child.pid)
        self._children[identity] = child, plan
        metrics = f"http://{plan.metrics}/metrics"
        self._state.processes.append(Process("keeper", plan.id, identity, str(plan.client), metrics))
        self._state.save()

    def _wait_serving(
        self, identity: Identity, child: subprocess.Popen[bytes], plan: KeeperPlan, deadline: float
    ) -> None:
        while mode(*plan.client) is None:
            if child.poll() is not None:
                raise StartError(f"keeper {plan.id} {_last_words(child, plan.log_file)}")
            if time.monotonic() > deadline:
                reason = f"does not serve after {READY_TIMEOUT_S:g} s; its log is {plan.log_file}"
                raise StartError(f"keeper {plan.id} (pid {identity.pid}) {reason}")
            if self._signals.wait(0.02):
                raise StoppedError


def _last_words(child: subprocess.Popen[bytes], log: Path) -> str:
    code = child.returncode
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    said = f": {lines[-1]}" if lines and code >= 0 else ""
    return f"(pid {child.pid}) {how}{said} (log: {log})"
