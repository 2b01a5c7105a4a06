"""``ottla.json``: which processes of a cluster run, so that ``down`` and ``status`` find them and touch no others.

The file exists while the cluster does. It is replaced as a whole, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from ottla.base.errors import ConfigError
from ottla.cli.processes import Identity

FILE = "ottla.json"
LOCK = ".ottla.lock"
TEMPORARY_PREFIX = "ottla-"


@dataclass(frozen=True, slots=True)
class Process:
    """One role of one process."""

    role: str
    id: int
    identity: Identity
    address: str
    metrics: str | None = None
    arguments: tuple[str, ...] = ()
    """Of ``ottla``: how it was started, and how it is started again."""
    log_file: str = ""

    def public(self) -> dict[str, object]:
        """What ``ottla status --json`` tells."""
        return {
            "role": self.role,
            "id": self.id,
            "pid": self.identity.pid,
            "address": self.address,
            "metrics": self.metrics,
        }


@dataclass(slots=True)
class State:
    """The processes that were started for a folder."""

    folder: Path
    supervisor: Identity | None = None
    temporary: Path | None = None
    processes: list[Process] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """What ``folder`` tells, or None if nothing was started there."""
        file = folder / FILE
        try:
            stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return cls(
                folder=folder,
                supervisor=Identity(*stored["supervisor"]) if stored["supervisor"] else None,
                temporary=Path(stored["temporary"]) if stored["temporary"] else None,
                processes=[
                    Process(
                        **{
                            **process,
                            "identity": Identity(*process["identity"]),
                            "arguments": tuple(process.get("arguments", ())),
                        }
                    )
                    for process in stored["processes"]
                ],
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{file}: is not what ottla wrote: {error!r}; remove it if no process of it runs"
            ) from error

    def save(self) -> None:
        """Replace the file."""
        stored = {
            "supervisor": self.supervisor,
            "temporary": str(self.temporary) if self.temporary else None,
            "processes": [asdict(process) for process in self.processes],
        }
        new = self.folder / f"{FILE}.new"
        with new.open("w", encoding="utf-8") as out:
            json.dump(stored, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
        new.replace(self.folder / FILE)

    def forget(self) -> None:
        """Remove the file, temporary data, and the folder if nothing else is in it."""
        if self.temporary is not None and self.temporary.name.startswith(TEMPORARY_PREFIX):
            shutil.rmtree(self.temporary, ignore_errors=True)
        for name in (FILE, f"{FILE}.new", LOCK):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def identities(self) -> list[Identity]:
        """Every process once, whatever number of roles it has."""
        return list(dict.fromkeys(process.identity for process in self.processes))

    def stopping_order(self) -> list[list[Identity]]:
        """The same, those that need others before those: a broker hands over and closes its session while keepers run."""
        brokers = {process.identity for process in self.processes if process.role == "broker"}
        known = self.identities()
        return [[each for each in known if each in brokers], [each for each in known if each not in brokers]]

    def lacks_quorum(self) -> bool:
        """Whether so many keepers are dead that those that run cannot serve."""
        keepers = [process for process in self.processes if process.role == "keeper"]
        return 2 * sum(process.identity.is_alive() for process in keepers) <= len(keepers)

    def alive(self) -> list[Process]:
        """The processes that run now."""
        return [process for process in self.processes if process.identity.is_alive()]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other commands out of the folder while one decides what runs there."""
    with (folder / LOCK).open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another ottla command (up or restart) is at work there") from None
        yield
