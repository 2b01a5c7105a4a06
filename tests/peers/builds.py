"""Small programs in Java, Go and JavaScript, built from sources in the tests into ``.peers/``."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers.maven import PEERS, PeerMissingError, class_path

GO_ENVIRONMENT = {
    "GOMODCACHE": str(PEERS / "go" / "modules"),
    "GOCACHE": str(PEERS / "go" / "cache"),
    "GOFLAGS": "-modcacherw",
}


def java_classes(source: Path, libraries: str) -> str:
    """Compiles one Java file against a set of libraries; gives the class path to run it with."""
    path = class_path(libraries)
    target = PEERS / f"classes-{source.stem.lower()}-{libraries}"
    with _locked(target.name):
        if _stale(target, [source], path):
            target.mkdir(exist_ok=True)
            _run(["javac", "-nowarn", "-cp", path, "-d", str(target), str(source)])
            _mark(target, [source], path)
    return os.pathsep.join((str(target), path))


def go_program(module: Path, package: str = ".") -> Path:
    """Builds a package of a Go module; what it needs comes from the Go proxy, and all caches stay in ``.peers/``."""
    target = PEERS / f"go-{module.name}-{hashlib.sha256(str(module / package).encode()).hexdigest()[:8]}"
    sources = sorted(path for path in module.rglob("*") if path.is_file())
    with _locked(target.name):
        if _stale(target, sources, ""):
            target.mkdir(exist_ok=True)
            _run(["go", "build", "-o", str(target / "program"), f"./{package}"], cwd=module, environment=GO_ENVIRONMENT)
            _mark(target, sources, "")
    return target / "program"


def node_program(folder: Path, script: str) -> list[str]:
    """A script beside its ``package.json``, with what that needs; gives the command that runs it."""
    target = PEERS / f"node-{folder.name}"
    sources = sorted(path for path in folder.iterdir() if path.is_file())
    with _locked(target.name):
        if _stale(target, sources, ""):
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
            _run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=target)
            _mark(target, sources, "")
    return ["node", str(target / script)]


@contextmanager
def _locked(name: str) -> Iterator[None]:
    PEERS.mkdir(exist_ok=True)
    with (PEERS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fingerprint(sources: list[Path], salt: str) -> str:
    parts = [salt.encode(), *(source.read_bytes() for source in sources)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _stale(target: Path, sources: list[Path], salt: str) -> bool:
    stamp = target / "complete"
    return not stamp.exists() or stamp.read_text() != _fingerprint(sources, salt)


def _mark(target: Path, sources: list[Path], salt: str) -> None:
    (target / "complete").write_text(_fingerprint(sources, salt))


def _run(command: list[str], *, cwd: Path | None = None, environment: dict[str, str] | None = None) -> None:
    if shutil.which(command[0]) is None:
        raise PeerMissingError(f"{command[0]} is needed to build a peer of the compatibility tests")
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        raise PeerMissingError(f"{' '.join(command)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
