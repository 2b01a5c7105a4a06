"""The tables on disk: written batch by batch, and made to count all at once.

    write      Spark writes a table's new rows into a directory of their own, TABLE/BATCH-xxxx/date=.../hour=.../
    commit     the files are forced to disk, then a manifest that names them takes the place of the one before, by a rename

A batch whose number is in the manifest is done and is never done again; one that is not leaves nothing that counts. So each
record of a stream is in the tables exactly once, whenever anything is killed. Attempts have different directories, so a task
that outlives its driver writes where nobody looks. Replaced files stay for a while, for those who read by the older manifest.

One writer at a time: a lock on a file of the directory, which ends with its process.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ottla.base.errors import Error
from ottla.scan import manifest

HOUR = "%Y-%m-%dT%H"
_PRIVATE = 0o600


class StoreError(Error):
    """A directory that cannot be written to now, or not by this pipeline."""


class File(NamedTuple):
    path: str
    """Within the directory."""
    hour: str
    rows: int


@dataclass(slots=True)
class State:
    """What the manifest says."""

    stream: str | None = None
    """The id of the query that wrote this, as its checkpoint has it."""
    batch: int = -1
    """The last batch of it that counts."""
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    """Behind what was read in one go, where a stream would go on."""
    totals: dict[str, int] = field(default_factory=dict)
    tables: dict[str, list[File]] = field(default_factory=dict)
    retired: list[tuple[str, float]] = field(default_factory=list)
    """Files that were replaced, and when."""

    def files(self, table: str, hours: Iterable[str] | None = None) -> list[File]:
        found = self.tables.get(table, [])
        if hours is None:
            return list(found)
        wanted = set(hours)
        return [one for one in found if one.hour in wanted]

    def add(self, table: str, files: Sequence[File], *, instead: Sequence[File] = ()) -> None:
        gone = {one.path for one in instead}
        now = time.time()
        self.tables[table] = [one for one in self.tables.get(table, []) if one.path not in gone] + list(files)
        self.retired += [(path, now) for path in sorted(gone)]

    def count(self, totals: Mapping[str, int]) -> None:
        for name, number in totals.items():
            self.totals[name] = self.totals.get(name, 0) + number


class Store:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For as long as something is written here."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"another pipeline writes to {self.directory}") from None
            self._sweep()
            yield

    def salt(self) -> str:
        """Made once for this directory, where none is given: the same visitor is the same forever."""
        path = self.directory / "salt"
        if not path.exists():
            made = self.directory / "salt.new"
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "w") as file:
                file.write(secrets.token_hex(16))
            made.replace(path)
        return path.read_text()

    def load(self) -> State:
        found = manifest.load(self.directory)
        if found is None:
            return State()
        tables = {
            name: [File(one["path"], one["hour"], one["rows"]) for one in files]
            for name, files in found["tables"].items()
        }
        retired = [(path, at) for path, at in found["retired"]]
        return State(found["stream"], found["batch"], found["offsets"], found["totals"], tables, retired)

    def fresh(self, table: str, batch: str) -> Path:
        """A directory for one attempt at a batch."""
        return self.directory / table / f"{batch}-{secrets.token_hex(4)}"

    def written(self, folder: Path) -> list[File]:
        """What Spark left there, forced to disk."""
        import pyarrow.parquet as pq

        found = []
        for path in sorted(folder.glob("date=*/hour=*/*.parquet")):
            _sync(path)
            hour = f"{path.parent.parent.name.removeprefix('date=')}T{path.parent.name.removeprefix('hour=')}"
            rows: int = pq.read_metadata(path).num_rows
            found.append(File(os.fspath(path.relative_to(self.directory)), hour, rows))
        for inner in sorted({parent for one in found for parent in (self.directory / one.path).parents}):
            if inner.is_relative_to(self.directory):
                _sync(inner)
        return found

    def commit(self, state: State, *, keep: timedelta) -> None:
        """From here on, this is what there is. Then what was replaced long ago is removed."""
        long_ago = time.time() - keep.total_seconds()
        gone = [path for path, at in state.retired if at <= long_ago]
        state.retired = [(path, at) for path, at in state.retired if at > long_ago]
        tables = {name: [one._asdict() for one in files] for name, files in state.tables.items()}
        made: dict[str, Any] = {
            "version": manifest.VERSION,
            "stream": state.stream,
            "batch": state.batch,
            "offsets": state.offsets,
            "totals": state.totals,
            "tables": tables,
            "retired": state.retired,
        }
        path = self.directory / manifest.NAME
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(made, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        _sync(self.directory)
        for one in gone:
            (self.directory / one).unlink(missing_ok=True)

    def paths(self, files: Iterable[File]) -> list[str]:
        return [os.fspath(self.directory / one.path) for one in files]

    def _sweep(self) -> None:
        """Remove what attempts left that did not come to count."""
        state = self.load()
        known = [one.path for files in state.tables.values() for one in files] + [path for path, _ in state.retired]
        folders = {Path(path).parts[:2] for path in known}
        for table in self.directory.iterdir():
            if table.is_dir() and (table / ".table").exists():
                for attempt in table.iterdir():
                    if attempt.is_dir() and (table.name, attempt.name) not in folders:
                        shutil.rmtree(attempt, ignore_errors=True)

    def claim(self, table: str) -> None:
        """Mark a directory as a table's, so that nothing else is ever swept."""
        (self.directory / table).mkdir(parents=True, exist_ok=True)
        (self.directory / table / ".table").touch()


def hours_around(hours: Iterable[str], *, back: int = 0, ahead: int = 0) -> set[str]:
    found = set()
    for one in hours:
        at = datetime.strptime(one, HOUR)  # noqa: DTZ007  # all of them are UTC
        found |= {(at + timedelta(hours=more)).strftime(HOUR) for more in range(-back, ahead + 1)}
    return found


def days_of(hours: Iterable[str]) -> set[str]:
    """All hours of the days of these."""
    return {f"{day}T{hour:02d}" for day in {one.partition("T")[0] for one in hours} for hour in range(24)}


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
