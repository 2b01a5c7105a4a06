from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.collect.filesystem import RealFileSystem, Stat
from ottla.collect.tailing import Chunk, Tailer

LOG = "/logs/app.log"


class Node:
    def __init__(self, inode: int) -> None:
        self.inode = inode
        self.data = bytearray()
        self.changed = 0


class ModelFiles:
    """Files in memory, and something that happens to them between any two questions."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens
        self.names: dict[str, Node] = {}
        self._open: dict[int, Node] = {}
        self._numbers = 0

    def create(self, name: str) -> Node:
        self._numbers += 1
        self.names[name] = Node(self._numbers)
        return self.names[name]

    def change(self, node: Node, data: bytes) -> None:
        node.data[:] = data
        node.changed += 1

    def glob(self, patterns: Sequence[str]) -> list[str]:
        self._happens()
        return [name for name in self.names if any(fnmatch(name, pattern) for pattern in patterns)]

    def beside(self, path: str) -> list[str]:
        self._happens()
        return list(self.names)

    def stat(self, path: str) -> Stat | None:
        self._happens()
        node = self.names.get(path)
        return None if node is None else Stat(0, node.inode, len(node.data), node.changed)

    def open(self, path: str) -> int | None:
        self._happens()
        if path not in self.names:
            return None
        self._numbers += 1
        self._open[self._numbers] = self.names[path]
        return self._numbers

    def fstat(self, file: int) -> Stat:
        self._happens()
        node = self._open[file]
        return Stat(0, node.inode, len(node.data), node.changed)

    def pread(self, file: int, size: int, offset: int) -> bytes:
        self._happens()
        return bytes(self._open[file].data[offset : offset + size])

    def close(self, file: int) -> None:
        del self._open[file]


class Writer:
    """Somebody who logs, and somebody who rotates the log."""

    def __init__(self, acts: Sequence[str]) -> None:
        self._acts = list(reversed(acts))
        self.files = ModelFiles(self.act)
        self.files.create(LOG)
        self.written: list[bytes] = []
        self._unfinished = b""
        self._copying = ""

    def act(self) -> None:
        if self._acts:
            getattr(self, self._acts.pop())()

    def rest(self) -> None:
        pass

    def log(self) -> None:
        self._append(self._line() + b"\n")

    def log_half(self) -> None:
        if not self._copying:
            self._append(self._line())

    def rename(self) -> None:
        if LOG in self.files.names and not self._copying and not self._unfinished:
            self._shift()
            self.files.names[f"{LOG}.1"] = self.files.names.pop(LOG)

    def appear(self) -> None:
        if LOG not in self.files.names:
            self.files.create(LOG)

    def copy(self) -> None:
        """In three steps: half of the copy, all of it, and the truncation."""
        if self._copying == "half":
            self.files.change(self.files.names[f"{LOG}.1"], bytes(self.files.names[LOG].data))
            self._copying = "whole"
        elif self._copying == "whole":
            self.files.change(self.files.names[LOG], b"")
            self._copying = ""
        elif LOG in self.files.names and not self._unfinished:
            self._shift()
            data = bytes(self.files.names[LOG].data)
            self.files.change(self.files.create(f"{LOG}.1"), data[: len(data) // 2])
            self._copying = "half"

    @property
    def done(self) -> bool:
        return not self._acts

    def _shift(self) -> None:
        names = self.files.names
        for number in reversed(range(1, len(names) + 1)):
            if f"{LOG}.{number}" in names:
                names[f"{LOG}.{number + 1}"] = names.pop(f"{LOG}.{number}")

    def _line(self) -> bytes:
        return b"%d;" % (len(self.written) * 7919 + 1)

    def _append(self, data: bytes) -> None:
        node = self.files.names.get(LOG)
        if node is None or self._copying:
            return
        self.files.change(node, bytes(node.data) + data)
        self._unfinished += data
        if data.endswith(b"\n"):
            self.written.append(self._unfinished[:-1])
            self._unfinished = b""


class Keeper:
    """Keeps what the tailer returns, and is killed now and then."""

    def __init__(self, writer: Writer, **options: bool) -> None:
        self._writer = writer
        self._options = options
        self.positions: dict[str, Mapping[str, object]] = {}
        self.lines: list[bytes] = []
        self.now_s = 0.0
        self.restart()

    def restart(self) -> None:
        self._tailer = Tailer(self._writer.files, [f"{LOG}*"], self.positions, line_bytes_max=1000, **self._options)

    def poll(self, kept: int | None = None) -> int:
        """With ``kept``, the process dies when it has kept so many."""
        self.now_s += 7
        chunks = self._tailer.poll(self.now_s)
        for chunk in chunks[:kept]:
            keep(chunk, self.positions, self.lines)
        if kept is not None:
            self.restart()
        return len(chunks)


def keep(chunk: Chunk, positions: dict[str, Mapping[str, object]], lines: list[bytes]) -> None:
    lines += [line.value for line in chunk.lines]
    for name, position in chunk.positions.items():
        if position is None:
            positions.pop(name, None)
        else:
            positions[name] = position


LOGS = ["rest", "rest", "rest", "log", "log", "log", "log_half"]
KINDS = [[*LOGS, "rename", "appear", "appear"], [*LOGS, "copy", "copy"]]
ACTS = st.sampled_from(KINDS).flatmap(lambda kinds: st.lists(st.sampled_from(kinds), max_size=120))
Kills = list[int | None]


def check(acts: list[str], kills: Kills) -> None:
    writer = Writer(acts)
    keeper = Keeper(writer)
    for kill in kills:
        keeper.poll(kill)
    while not writer.done:
        keeper.poll()
    while keeper.poll():
        pass
    keeper.poll()
    assert sorted(keeper.lines) == sorted(writer.written)


@settings(max_examples=150, deadline=None)
@given(ACTS, st.lists(st.none() | st.integers(0, 3), max_size=12))
def test_rotation_at_any_moment_loses_and_doubles_nothing(acts: list[str], kills: Kills) -> None:
    check(acts, kills)


FOUND = (3, 4, 10, 27, 289, 464, 545)
"""Seeds that found something: names that change during a look, copies of what was truncated unnoticed, files without a name for a moment."""


@pytest.mark.parametrize("seed", [*FOUND, *range(1000, 1040)])
def test_long_histories_lose_and_double_nothing(seed: int) -> None:
    draw = random.Random(seed)
    kinds = draw.choice(KINDS)
    acts = [draw.choice(kinds) for _ in range(draw.randrange(400))]
    check(acts, [draw.choice([None, None, None, 0, 1, 2, 3]) for _ in range(draw.randrange(30))])


def real(folder: Path, positions: dict[str, Mapping[str, object]], **options: bool) -> Tailer:
    return Tailer(RealFileSystem(), [f"{folder}/*.log*"], positions, line_bytes_max=1000, **options)


def collected(tailer: Tailer, positions: dict[str, Mapping[str, object]], now_s: float = 1.0) -> list[bytes]:
    lines: list[bytes] = []
    while chunks := tailer.poll(now_s):
        for chunk in chunks:
            keep(chunk, positions, lines)
    return lines


def append(file: Path, text: str) -> None:
    with file.open("a") as stream:
        stream.write(text)


def test_real_files_through_both_kinds_of_rotation_and_a_restart(tmp_path: Path) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    file, old = tmp_path / "a.log", tmp_path / "a.log.1"
    append(file, "one\ntwo\nthr")
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == [b"one", b"two"]
    append(file, "ee\n")
    file.rename(old)
    append(file, "four\n")
    assert collected(tailer, positions, 3) == [b"three", b"four"]
    tailer.close()
    append(file, "five\n")
    shutil.copy(file, tmp_path / "a.log.copy")
    os.truncate(file, 0)
    append(file, "six\n")
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == [b"five", b"six"]
    tailer.close()
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == []
    tailer.close()


def test_a_file_that_is_renamed_out_of_the_patterns_while_nobody_looks_is_read_to_its_end(tmp_path: Path) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    file = tmp_path / "a.log"
    append(file, "one\n")
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == [b"one"]
    tailer.close()
    append(file, "two\n")
    file.rename(tmp_path / "old")
    append(file, "three\n")
    tailer = real(tmp_path, positions)
    assert sorted(collected(tailer, positions)) == [b"three", b"two"]
    tailer.close()


@pytest.mark.parametrize("inode", ["in use", "of another", "of one that cannot be read"])
def test_a_file_that_was_packed_meanwhile_is_read_on_where_it_was(tmp_path: Path, inode: str) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    file = tmp_path / "a.log"
    append(file, "one\n")
    tailer = real(tmp_path, positions, compressed=True)
    assert collected(tailer, positions) == [b"one"]
    tailer.close()
    append(file, "two\n")
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(file.read_bytes()))
    # Under any name but its own it keeps its inode, which may be a new file's.
    (tmp_path / "elsewhere").mkdir()
    kept = {"of another": "b.log.gz", "of one that cannot be read": "c.log.gz"}.get(inode, "elsewhere/a.log")
    file.rename(tmp_path / kept)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(b"other\n"))
    (tmp_path / "c.log.gz").write_bytes(b"nothing of the kind")
    tailer = real(tmp_path, positions, compressed=True)
    assert sorted(collected(tailer, positions)) == [b"other", b"two"]
    tailer.close()


def test_a_file_that_is_packed_before_our_eyes_is_not_read_twice(tmp_path: Path) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    file = tmp_path / "a.log"
    append(file, "one\n")
    tailer = real(tmp_path, positions, compressed=True)
    assert collected(tailer, positions) == [b"one"]
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert collected(tailer, positions, 3) == []
    tailer.close()


def test_from_the_end_means_what_is_there_at_the_first_start_alone(tmp_path: Path) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    append(tmp_path / "a.log", "old\n")
    tailer = real(tmp_path, positions, from_end=True)
    assert collected(tailer, positions) == []
    append(tmp_path / "a.log", "new\n")
    append(tmp_path / "b.log", "born\n")
    assert sorted(collected(tailer, positions, 3)) == [b"born", b"new"]
    tailer.close()
    append(tmp_path / "a.log", "later\n")
    tailer = real(tmp_path, positions, from_end=True)
    assert collected(tailer, positions) == [b"later"]
    tailer.close()


def test_files_with_the_same_content_are_files_of_their_own(tmp_path: Path) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    append(tmp_path / "a.log", "same\n")
    append(tmp_path / "b.log", "same\n")
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == [b"same", b"same"]
    assert tailer.lag() == (2, 0)
    tailer.close()


def test_a_large_file_does_not_keep_others_waiting(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes((b"x" * 99 + b"\n") * 50_000)
    tailer = real(tmp_path, {})
    tailer.poll(1)
    append(tmp_path / "b.log", "hello\n")
    for _ in range(3):
        if any(chunk.path.endswith("b.log") and chunk.lines for chunk in tailer.poll(3)):
            break
    else:
        raise AssertionError("it was not its turn")
    tailer.close()


def test_a_file_that_was_truncated_and_has_outgrown_what_was_read_is_noticed(tmp_path: Path) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    file = tmp_path / "a.log"
    append(file, "one\n")
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == [b"one"]
    os.truncate(file, 0)
    append(file, "uno\ndos\ntres\n")
    assert collected(tailer, positions) == [b"uno", b"dos", b"tres"]
    tailer.close()


def test_a_truncation_between_reading_and_knowing_it_is_noticed() -> None:
    """What was read is of what the file held before, or of what it holds now; nobody can tell."""
    writer = Writer(["rest"] * 1000)
    keeper = Keeper(writer)
    writer.log()
    keeper.poll()
    assert keeper.lines == [b"1;"]
    writer.log()
    node = writer.files.names[LOG]
    whole = bytes(node.data)
    real_pread = writer.files.pread
    reads: list[int] = []

    def pread(file: int, size: int, offset: int) -> bytes:
        data = real_pread(file, size, offset)
        if not reads and offset:
            writer.files.change(writer.files.create(f"{LOG}.1"), whole)
            writer.files.change(node, b"")
        reads.append(offset)
        return data

    writer.files.pread = pread  # type: ignore[method-assign]
    keeper.poll()
    while keeper.poll():
        pass
    assert reads
    assert keeper.lines == [b"1;", b"7920;"]


def test_a_copy_is_known_although_its_original_has_another_name_by_now(tmp_path: Path) -> None:
    positions: dict[str, Mapping[str, object]] = {}
    file = tmp_path / "a.log"
    append(file, "one\n")
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == [b"one"]
    append(file, "two\n")
    shutil.copy(file, tmp_path / "a.log.1")
    os.truncate(file, 0)
    file.rename(tmp_path / "a.log.old")
    append(file, "three\n")
    assert sorted(collected(tailer, positions, 3)) == [b"three", b"two"]
    tailer.close()


def test_only_files_that_may_be_the_copy_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, positions = tmp_path / "a.log", dict[str, Mapping[str, object]]()
    append(log, "one\ntwo\n")
    for name in ("b.log.1.gz", "c.log.2.gz", "notes"):
        append(tmp_path / name, "something else\n")
    tailer = real(tmp_path, positions)
    assert collected(tailer, positions) == [b"one", b"two"]
    opened: list[str] = []
    open_file = RealFileSystem.open

    def noted(self: RealFileSystem, path: str) -> int | None:
        opened.append(Path(path).name)
        return open_file(self, path)

    monkeypatch.setattr(RealFileSystem, "open", noted)
    (tmp_path / "a.log.copy").write_bytes(log.read_bytes())
    log.write_text("new\n")
    assert collected(tailer, positions, 2.0) == [b"new"]
    assert set(opened) == {"a.log.copy"}
    tailer.close()
