"""``Cluster``; see the package."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.base.properties import format_properties, parse_properties
from ottla.testing.wires import Wires, wired

BROKER = "broker"


class ClusterError(Exception):
    """The cluster did not do what the test asked of it."""


class Cluster:
    """Brokers and keepers on free ports of this machine. The ids of each start at 1.

    With ``partitions``, brokers can be cut off from the others (``partition``). They reach each other and the keepers through
    this process then, which has to have time for them.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        keepers: int | None = None,
        settings: Mapping[str, str] | None = None,
        keeper_settings: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        partitions: bool = False,
    ) -> None:
        self._brokers = brokers
        self._partitions = partitions
        self._wires: Wires | None = None
        self._counts = {"--brokers": brokers} | ({} if keepers is None else {"--keepers": keepers})
        self._settings = {"--set": settings or {}, "--keeper-set": keeper_settings or {}}
        self._given = folder
        self._is_there = False
        self.folder = Path()
        """Of the processes and their data, once it is started."""
        self.bootstrap = ""
        """Where Kafka clients begin, as ``host:port,...``."""
        self.keepers = ""
        """Where ZooKeeper clients begin, likewise."""

    def start(self) -> Self:
        """Start every process; returns once all of them serve."""
        self.folder = Path(tempfile.mkdtemp(prefix="ottla-test-") if self._given is None else self._given)
        self._is_there = True
        arguments = ["up", "--port", "0", "--keeper-port", "0", "--no-console", "--detach"]
        for option, count in self._counts.items():
            arguments += [option, str(count)]
        for option, settings in self._settings.items():
            for name, value in settings.items():
                arguments += [option, f"{name}={value}"]
        try:
            ready = self._ottla(*arguments)
            if self._partitions:
                self._lay_wires()
        except BaseException:
            self.stop()
            raise
        told = dict(word.split("=", 1) for word in ready.removeprefix("ready:").split())
        self.bootstrap, self.keepers = told["bootstrap"], told["keeper"]
        return self

    def stop(self) -> None:
        """Stop every process, paused ones too. A folder that was not given is removed. Of what is not started, nothing."""
        if not self._is_there:
            return
        for process in self._processes():
            os.kill(process["pid"], signal.SIGCONT)
        self._ottla("down")
        if self._wires is not None:
            self._wires.close()
            self._wires = None
        if self._given is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._is_there = False

    def kill(self, number: int, role: str = BROKER) -> None:
        """End a process at once, without a chance to say goodbye."""
        os.kill(self.pid(number, role), signal.SIGKILL)

    def terminate(self, number: int, role: str = BROKER) -> None:
        """Ask a process to end in good order."""
        os.kill(self.pid(number, role), signal.SIGTERM)

    def pause(self, number: int, role: str = BROKER) -> None:
        """Let a process stand still, with its connections open."""
        os.kill(self.pid(number, role), signal.SIGSTOP)

    def resume(self, number: int, role: str = BROKER) -> None:
        os.kill(self.pid(number, role), signal.SIGCONT)

    def restart(self, number: int, role: str = BROKER) -> None:
        """Stop a process if it runs, start it again with its data, and wait until it serves."""
        self._ottla("restart", role, str(number))

    def partition(self, *numbers: int) -> None:
        """Cut brokers off from each other, from all others and from the keepers, without a word; clients reach them still."""
        if self._wires is None:
            raise ClusterError("only a Cluster(partitions=True) has connections that can be cut")
        self._wires.cut(numbers)

    def heal(self) -> None:
        """Nobody is cut off any more, and what was sent meanwhile arrives."""
        self.partition()

    def pid(self, number: int, role: str = BROKER) -> int:
        for process in self._processes():
            if (process["role"], process["id"]) == (role, number):
                pid: int = process["pid"]
                return pid
        raise ClusterError(f"{role} {number} does not run")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _lay_wires(self) -> None:
        self._wires = Wires(self.folder.absolute())
        for number in range(1, self._brokers + 1):
            file = self.folder / f"broker-{number}" / "server.properties"
            properties = wired(parse_properties(file.read_text(encoding="utf-8")), number, self._wires)
            file.write_text(format_properties(properties.items()), encoding="utf-8")
        for number in range(1, self._brokers + 1):
            self.restart(number)

    def _processes(self) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = json.loads(self._ottla("status", "--json"))["processes"]
        return processes

    def _ottla(self, *arguments: str) -> str:
        command = [sys.executable, "-P", "-m", "ottla", *arguments, "--dir", os.fspath(self.folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise ClusterError(done.stderr.strip() or f"ottla {arguments[0]} ended with exit code {done.returncode}")
        return done.stdout
