"""A cluster of a folder: up, down and status, without the command line around them."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.base.errors import ConfigError
from ottla.cli.plan import KeeperPlan, plan_keepers, write_keepers
from ottla.cli.processes import end, identify, wait_gone
from ottla.cli.state import TEMPORARY_PREFIX, State, locked
from ottla.cli.supervisor import GRACE_S, Signals, StoppedError, Supervisor

INTERRUPTED = 128 + signal.SIGINT


@dataclass(frozen=True, slots=True, kw_only=True)
class UpRequest:
    """What the command line of ``ottla up`` asks for."""

    folder: Path
    host: str
    keepers: int | None
    keeper_port: int
    keeper_settings: Mapping[str, str]
    ephemeral: bool
    detach: bool
    insecure: bool


def up(request: UpRequest) -> int:
    """Start a cluster; stay with it unless it is to be detached. Gives the exit code of the process."""
    with Signals.caught() as signals:
        with _claimed(request) as (state, plans):
            supervisor = Supervisor(state, signals)
            try:
                supervisor.start(plans, insecure=request.insecure)
            except BaseException as error:
                supervisor.stop()
                state.forget()
                if isinstance(error, StoppedError):
                    return INTERRUPTED
                raise
            if request.detach:
                state.supervisor = None
                state.save()
        print(_ready_line(plans), flush=True)
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
    running = len(state.alive())
    if state.supervisor is not None and state.supervisor.is_alive():
        # It stops its children and removes the file; what it leaves behind is ours to stop.
        state.supervisor.send(signal.SIGTERM)
        wait_gone([state.supervisor], 2 * GRACE_S)
    killed = end(state.identities(), GRACE_S)
    state.forget()
    forced = f", {len(killed)} of them by force" if killed else ""
    print(f"stopped {running} of {len(state.processes)} processes{forced}")
    return 0


@contextlib.contextmanager
def _claimed(request: UpRequest) -> Iterator[tuple[State, Sequence[KeeperPlan]]]:
    """Take the folder for this cluster, with everything written that its processes will read."""
    folder = request.folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--dir {request.folder}: cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"--dir {request.folder}: this user cannot write to it")
    with locked(folder):
        before = State.load(folder)
        if before is not None and before.alive():
            pids = ", ".join(str(process.identity.pid) for process in before.alive())
            raise ConfigError(
                f"--dir {request.folder}: a cluster runs there already (pids {pids});"
                f" stop it with: ottla down --dir {request.folder}"
            )
        if before is not None:
            before.forget()
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)) if request.ephemeral else None
        state = State(folder, identify(os.getpid()), temporary)
        try:
            data = temporary or folder
            plans = plan_keepers(
                data,
                count=request.keepers,
                host=request.host,
                port=request.keeper_port,
                insecure=request.insecure,
            )
            write_keepers(plans, request.keeper_settings, insecure=request.insecure)
            state.save()
        except BaseException:
            state.forget()
            raise
        yield state, plans


def _ready_line(plans: Sequence[KeeperPlan]) -> str:
    keepers = ",".join(str(plan.client) for plan in plans)
    return f"ready: bootstrap= keeper={keepers} console= rest="
