"""A cluster of a folder: up, down and status, without the command line around them."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ottla.base.errors import ConfigError
from ottla.cli.plan import ClusterPlan, Wish, plan_cluster
from ottla.cli.processes import end, identify, wait_gone
from ottla.cli.serving import is_listening
from ottla.cli.state import TEMPORARY_PREFIX, State, locked
from ottla.cli.supervisor import GRACE_S, READY_TIMEOUT_S, Child, Signals, StoppedError, Supervisor, planned_again

INTERRUPTED = 128 + signal.SIGINT


class NotStartedError(ConfigError):
    """A process that ``up`` did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpRequest:
    """What the command line of ``ottla up`` asks for."""

    wish: Wish
    ephemeral: bool
    detach: bool


def up(request: UpRequest) -> int:
    """Start a cluster; stay with it unless it is to be detached. Gives the exit code of the process."""
    with Signals.caught() as signals:
        with _claimed(request) as (state, plan):
            supervisor = Supervisor(state, signals)
            try:
                supervisor.start(plan.processes())
            except BaseException as error:
                supervisor.stop()
                state.forget()
                if isinstance(error, StoppedError):
                    return INTERRUPTED
                raise
            if request.detach:
                state.supervisor = None
                state.save()
        try:
            print(plan.ready_line(), flush=True)
        except OSError:
            # Nobody knows of it, nor would anybody watch over it.
            supervisor.stop()
            state.forget()
            raise
        if request.detach:
            return 0
        code = supervisor.watch()
        supervisor.stop()
        state.forget()
        return code


def down(folder: Path) -> int:
    """Stop every process that ``up`` started for the folder, and say what there was."""
    state = State.load(folder)
    if state is None:
        print(f"nothing runs in {folder}")
        return 0
    known = state.identities()
    running = sum(identity.is_alive() for identity in known)
    if state.supervisor is not None and state.supervisor.is_alive():
        # It stops its children and removes the file; what it leaves behind is ours to stop.
        state.supervisor.send(signal.SIGTERM)
        wait_gone([state.supervisor], 2 * GRACE_S)
    killed = [each for group in state.stopping_order() for each in end(group, GRACE_S)]
    state.forget()
    forced = f", {len(killed)} of them by force" if killed else ""
    print(f"stopped {running} of {len(known)} processes{forced}")
    return 0


def restart(folder: Path, role: str, number: int) -> int:
    """Stop one process of a cluster if it runs, start it again, and wait until it serves."""
    with Signals.caught() as signals:
        state, child = _started_again(folder, role, number)
        # Others may be started meanwhile: a keeper cannot serve before a majority of them runs.
        try:
            serves = child.wait_serving(
                signals,
                time.monotonic() + READY_TIMEOUT_S,
                lambda each: each.name == "keeper" and state.lacks_quorum() and is_listening(each),
            )
        except StoppedError:
            return INTERRUPTED
    address = next(each.address for each in child.plan.roles if (each.name, each.id) == (role, number))
    how, later = ("serves", "") if serves else ("runs", "; it serves once a majority does")
    print(f"{role} {number} {how} on {address} (pid {child.identity.pid}){later}")
    return 0


def _started_again(folder: Path, role: str, number: int) -> tuple[State, Child]:
    missing = NotStartedError(f"{folder}: no {role} {number} was started there")
    if not folder.is_dir():
        raise missing
    with locked(folder):
        state = State.load(folder)
        known = [] if state is None else [each for each in state.processes if (each.role, each.id) == (role, number)]
        if state is None or not known:
            raise missing
        before = known[0].identity
        end([before], GRACE_S)
        same = [each for each in state.processes if each.identity == before]
        child = Child(planned_again(same))
        state.processes = [each for each in state.processes if each not in same] + child.records()
        state.save()
        return state, child


@contextlib.contextmanager
def _claimed(request: UpRequest) -> Iterator[tuple[State, ClusterPlan]]:
    """Take the folder for this cluster, with everything written that its processes will read."""
    asked = request.wish.folder
    folder = asked.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--dir {asked}: cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"--dir {asked}: this user cannot write to it")
    with locked(folder):
        before = State.load(folder)
        if before is not None and before.alive():
            pids = ", ".join(str(pid) for pid in sorted({process.identity.pid for process in before.alive()}))
            raise ConfigError(
                f"--dir {asked}: a cluster runs there already (pids {pids}); stop it with: ottla down --dir {asked}"
            )
        if before is not None:
            before.forget()
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)) if request.ephemeral else None
        state = State(folder, identify(os.getpid()), temporary)
        try:
            plan = plan_cluster(replace(request.wish, folder=temporary or folder))
            state.save()
        except BaseException:
            state.forget()
            raise
        yield state, plan
