"""Processes by identity, and ports: what the operating system knows about a cluster.

A process id is reused once its process is gone, so an id from a file proves nothing. Together with the time at which
the process started it names one process for as long as the machine runs.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ottla.base.errors import ConfigError

_STATE = 0  # fields of /proc/PID/stat, counted from behind the name
_START_TIME = 19
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST_PORT = 10_000


class Identity(NamedTuple):
    """One process, now and for ever."""

    pid: int
    started: int

    def is_alive(self) -> bool:
        """Whether it runs now."""
        return started(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Signal this process, and never another one that has its number now."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def started(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in parentheses, and may hold any character, parentheses too.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[_STATE] in "ZX" else int(fields[_START_TIME])


def identify(pid: int) -> Identity:
    """The identity of a child that was just started. One that is gone already gets an identity nobody has."""
    return Identity(pid, started(pid) or 0)


def end(processes: Iterable[Identity], grace_s: float) -> list[Identity]:
    """Ask processes to end, wait, and kill those that did not; gives the ones that had to be killed."""
    running = [process for process in processes if process.is_alive()]
    for process in running:
        process.send(signal.SIGTERM)
    remaining = wait_gone(running, grace_s)
    for process in remaining:
        process.send(signal.SIGKILL)
    wait_gone(remaining, grace_s)
    return remaining


def wait_gone(processes: Iterable[Identity], timeout_s: float) -> list[Identity]:
    """Wait until processes have ended; gives those that still run when the time is over."""
    deadline = time.monotonic() + timeout_s
    remaining = [process for process in processes if process.is_alive()]
    while remaining and time.monotonic() < deadline:
        time.sleep(0.01)
        remaining = [process for process in remaining if process.is_alive()]
    return remaining


def check_host(host: str) -> None:
    """Refuse an address that no port of this machine can be listened on at."""
    try:
        with socket.socket(_family(host)) as probe:
            probe.bind((host, 0))
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"--host {host}: cannot listen there: {reason}") from error


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def free_ports(host: str, count: int) -> list[int]:
    """Ports that nobody uses, at random, below the range from which the system serves outgoing connections.

    They are held until this process ends: nobody else who chooses gets one of them before it is listened on.
    """
    try:
        highest = int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        highest = 32_768
    candidates = range(_LOWEST_PORT, max(highest, _LOWEST_PORT + 10_000))
    chosen: list[int] = []
    for port in random.SystemRandom().sample(candidates, len(candidates)):
        if len(chosen) == count:
            break
        if _hold(host, port):
            chosen.append(port)
    if len(chosen) < count:
        raise ConfigError(f"{host}: {count} free ports are needed, and there are {len(chosen)}")
    return chosen


def _hold(host: str, port: int) -> bool:
    """Whether nobody had it. A server may bind what is bound already, as long as everybody allows that and nobody listens."""
    holder = socket.socket(_family(host))
    try:
        holder.bind((host, port))
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.detach()
    return True


def mode(host: str, port: int, timeout_s: float = 1.0) -> str | None:
    """What a keeper answers to ``srvr`` as its mode; None while it does not serve."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return None
    lines = answer.decode(errors="replace").splitlines()
    return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode: ")), None)
