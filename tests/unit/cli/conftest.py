from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

KEEPERS_ONLY = ("--brokers", "0", "--keeper-port", "0")
STANDIN = Path(__file__).parent / "standin"


@dataclass
class Ottla:
    """The command line with stand-ins for keepers, in a folder of its own."""

    folder: Path
    standins: str = ""
    is_patient: bool = False
    python_path: str = os.fspath(STANDIN)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self._popen(arguments) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.started.append(self._popen(arguments))
        return self.started[-1]

    def _popen(self, arguments: tuple[str, ...]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ottla", *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": self.python_path,
                "STANDIN": self.standins,
                "PATIENT": "yes" if self.is_patient else "",
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--dir", "cluster", *KEEPERS_ONLY, "--detach", *arguments)

    def processes(self) -> list[dict[str, Any]]:
        done = self.run("status", "--dir", "cluster", "--json")
        assert done.returncode == 0, done.stderr
        processes: list[dict[str, Any]] = json.loads(done.stdout)["processes"]
        return processes


@pytest.fixture
def ottla(tmp_path: Path) -> Iterator[Ottla]:
    command = Ottla(tmp_path)
    yield command
    for process in command.started:
        with process:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
    for folder in tmp_path.iterdir():
        if folder.is_dir():
            command.run("down", "--dir", folder.name)
