"""Files that grow, read line by line, through rotation and restarts: which bytes were read, and which come next.

A file is known by device and inode, so a new name changes nothing. That it still has the content that was read, is told by
two samples of it: its beginning (``head``), and what stands before the place where reading goes on (``last``). They are compared
after each read, and after a restart.

    renamed        its name has another file now, or none. It is read to its end, and a while longer, as the writer may not
                   have noticed yet.
    truncated      the samples are not there any more: it is read from its beginning. The rest of what it held is in the copy
                   that was made before (copytruncate): a file beside it, whose name begins as its own, with the samples.
    copied         such a file that appears before the truncation is left alone until then.
    away           after a restart its inode is looked for beside its old name, and so is a copy of it (``--compressed``: also one
                   that was packed).
    reused         a new file with an old inode does not have the samples, and is new.

A machine: it asks a ``FileSystem`` and is told the time; it returns lines with the positions that are right once these lines are
kept. Positions move in steps: each ``Chunk`` is kept as a whole or not at all, in their order.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ottla.collect.filesystem import COMPRESSED, PACKED_SUFFIXES, FileSystem, Stat
from ottla.collect.lines import Line, LineCutter

log = logging.getLogger(__name__)

HEAD_BYTES = 256
LAST_BYTES = 64
READ_BYTES = 256 << 10
ROUND_BYTES = 2 << 20
"""Of all files in one call, so that what was read is kept before more is."""
SCAN_S = 1.0
QUIET_S = 60.0
"""How long a file may stand still before it is closed; one without a name is forgotten then."""


class Samples(NamedTuple):
    """What tells that a file has the content that was read up to ``end``."""

    head: bytes
    end: int
    last: bytes


class Chunk(NamedTuple):
    path: str
    lines: list[Line]
    positions: dict[str, dict[str, object] | None]


class _Found(NamedTuple):
    path: str
    file: int
    status: Stat


class Tail:
    """One file, as far as it was read."""

    __slots__ = (
        "cutter",
        "file",
        "grew_s",
        "head",
        "identity",
        "is_copy",
        "last",
        "named_s",
        "offset",
        "origin",
        "path",
        "seen",
    )

    def __init__(self, path: str, identity: str, samples: Samples, cutter: LineCutter) -> None:
        self.path = self.origin = path
        """``origin``: the name it had when it was first seen, with which those of its copies begin."""
        self.identity = identity
        self.head, self.offset, self.last = samples
        """``offset``: behind the last line that was given out; ``last`` stands before it."""
        self.cutter = cutter
        self.file: int | None = None
        self.seen: Stat | None = None
        """How the file was when it was read to its end."""
        self.grew_s = self.named_s = 0.0
        """When it last grew, and when it last had a name that the patterns find."""
        self.is_copy = False
        """Whether it is the rest of a file that was truncated: nothing comes behind its end."""

    @property
    def read(self) -> int:
        """Up to where bytes were read."""
        return self.offset + len(self.cutter.rest)

    def samples(self) -> Samples:
        return Samples(self.head, self.read, (self.last + self.cutter.rest)[-LAST_BYTES:])

    def position(self) -> dict[str, object]:
        return {
            "path": self.path,
            "origin": self.origin,
            "offset": self.offset,
            "piece": self.cutter.piece,
            "head": base64.b64encode(self.head[: self.offset]).decode(),
            "last": base64.b64encode(self.last).decode(),
        }

    def take(self, data: bytes) -> list[Line]:
        self.head = self._head_with(data)
        before = self.last + self.cutter.rest + data
        start = self.offset - len(self.last)
        lines = self.cutter.feed(data)
        self.offset = start + len(before) - len(self.cutter.rest)
        self.last = before[: len(before) - len(self.cutter.rest)][-LAST_BYTES:]
        return lines

    def finish(self) -> list[Line]:
        """The rest is a line, although it has no end."""
        rest = self.cutter.rest
        lines = self.cutter.finish()
        self.offset += len(rest)
        self.last = (self.last + rest)[-LAST_BYTES:]
        return lines

    def samples_with(self, data: bytes) -> Samples:
        return Samples(
            self._head_with(data), self.read + len(data), (self.last + self.cutter.rest + data)[-LAST_BYTES:]
        )

    def _head_with(self, data: bytes) -> bytes:
        return self.head if len(self.head) == HEAD_BYTES else (self.head + data)[:HEAD_BYTES]


class Tailer:
    """All files that the patterns name. See the module."""

    def __init__(
        self,
        fs: FileSystem,
        patterns: Sequence[str],
        positions: Mapping[str, Mapping[str, object]],
        *,
        line_bytes_max: int,
        from_end: bool = False,
        compressed: bool = False,
    ) -> None:
        self._fs = fs
        self._patterns = patterns
        self._line_bytes_max = line_bytes_max
        self._from_end = from_end
        self._compressed = compressed
        self._tails: dict[str, Tail] = {}
        self._kept = {identity: dict(position) for identity, position in positions.items()}
        """Positions from before the restart, of files that were not seen again yet."""
        self._unreadable: set[str] = set()
        self._scan_due_s = 0.0
        self._is_first_scan = True

    def poll(self, now_s: float) -> list[Chunk]:
        """What is new, up to a bound; nothing means that there is nothing more for now."""
        chunks = []
        if now_s >= self._scan_due_s:
            self._scan_due_s = now_s + SCAN_S
            chunks += self._scan(now_s)
        steps = ROUND_BYTES // READ_BYTES
        for tail in list(self._tails.values()):
            if steps and (chunk := self._try_step(tail, now_s)) is not None:
                chunks.append(chunk)
                steps -= 1
                # Behind the others, so that each has its turn.
                if self._tails.pop(tail.identity, None) is not None:
                    self._tails[tail.identity] = tail
        return chunks

    def finish(self) -> list[Chunk]:
        """Lines at the ends of files that have no newline, when nobody waits for one any more."""
        rests = [(tail, tail.finish()) for tail in self._tails.values()]
        return [self._chunk(tail, lines) for tail, lines in rests if lines]

    def lag(self) -> tuple[int, int]:
        """How many files are followed, and how many bytes of them are not read."""
        found = (self._fs.stat(tail.path) for tail in list(self._tails.values()))
        sizes = {each.identity: each.size for each in found if each is not None}
        behind = (sizes[name] - tail.read for name, tail in list(self._tails.items()) if name in sizes)
        return len(self._tails), sum(max(each, 0) for each in behind)

    def close(self) -> None:
        for tail in self._tails.values():
            self._close(tail)

    # ------------------------------------------------------------ which files

    def _scan(self, now_s: float) -> list[Chunk]:
        chunks: list[Chunk] = []
        found = []
        for path in self._fs.glob(self._patterns):
            if path.endswith(COMPRESSED if self._compressed else ()) or not path.endswith(PACKED_SUFFIXES):
                status = self._fs.stat(path)
                if status is not None:
                    found.append((status, path))
        # A new file may turn out to be a copy of one that was read before, or that has a shorter name.
        found.sort(key=lambda each: len(each[1]))
        chunks += self._take_all([each for each in found if each[0].identity in self._kept], now_s)
        if self._is_first_scan:
            chunks += self._look_for_kept(now_s)
        chunks += self._take_all(found, now_s)
        visible = {status.identity for status, _ in found}
        if self._is_first_scan:
            self._is_first_scan = False
            oldest_first = sorted(found, key=lambda each: each[0].changed)
            order = [status.identity for status, _ in oldest_first if status.identity in self._tails]
            self._tails = {**{each: self._tails[each] for each in order}, **self._tails}
        for tail in list(self._tails.values()):
            if tail.identity in visible:
                tail.named_s = now_s
            chunks += self._retire(tail, now_s)
        return chunks

    def _take_all(self, found: Sequence[tuple[Stat, str]], now_s: float) -> list[Chunk]:
        chunks: list[Chunk] = []
        for status, path in found:
            tail = self._tails.get(status.identity)
            if tail is not None:
                tail.path = path
            else:
                chunks += self._take(path, now_s)
        return chunks

    def _take(self, path: str, now_s: float) -> list[Chunk]:
        """Follow a file that was not followed, unless it is a copy of one that is."""
        file = self._fs.open(path)
        if file is None:
            if path not in self._unreadable:
                self._unreadable.add(path)
                log.warning("%s cannot be read", path)
            return []
        self._unreadable.discard(path)
        status = self._fs.fstat(file)
        chunks: list[Chunk] = []
        kept = self._kept.pop(status.identity, None)
        if status.identity in self._tails:
            self._fs.close(file)
            return []
        if kept is not None:
            tail = self._restored(path, status.identity, kept)
            tail.file = file
            if not self._has(file, tail.samples()):
                chunks += self._replaced(tail, now_s)
        else:
            chunks += self._notice_truncations(path, now_s)
            if status.identity in self._tails or self._is_copy_of_one(path, file, status):
                self._fs.close(file)
                return chunks
            is_read = path.endswith(COMPRESSED) and self._is_copy_of_any(file, status)
            is_past = self._from_end and self._is_first_scan
            samples = self._samples_at(file, status.size if is_read or is_past else 0)
            tail = Tail(path, status.identity, samples, LineCutter(self._line_bytes_max))
            tail.file = file
            chunks.append(self._chunk(tail, []))
        tail.grew_s = tail.named_s = now_s
        self._tails[tail.identity] = tail
        return chunks

    def _look_for_kept(self, now_s: float) -> list[Chunk]:
        """Files that were read before and that no pattern finds: they have other names now, or are gone."""
        chunks: list[Chunk] = []
        for identity, kept in list(self._kept.items()):
            tail = self._restored(str(kept["path"]), identity, kept)
            there = self._fs.stat(tail.path)
            if there is not None and there.identity == identity:
                continue  # other patterns were given this time
            del self._kept[identity]
            for found in self._find(tail.path, partial(self._may_be_same, tail), partial(self._is_same, tail)):
                tail.path, tail.file = found.path, found.file
                tail.grew_s = tail.named_s = now_s
                self._tails[identity] = tail
            if tail.file is not None:
                continue
            copies = self._copies(tail, now_s)
            if not copies:
                log.warning("%s was read up to byte %d, and is gone", tail.path, tail.offset)
            chunks.append(_merged([*copies, Chunk(tail.path, [], {identity: None})]))
        return chunks

    def _find(self, path: str, may_be: Callable[[str, str], bool], is_wanted: Callable[[_Found], bool]) -> list[_Found]:
        """Files of the same folder; only those are opened that ``may_be``, by name and identity, what is looked for.

        Where their names change meanwhile, it is done again.
        """
        while True:
            names = self._names(path, may_be)
            found: dict[str, _Found] = {}
            for name in names:
                if (file := self._fs.open(name)) is None:
                    continue
                each = _Found(name, file, self._fs.fstat(file))
                if each.status.identity not in found and is_wanted(each):
                    found[each.status.identity] = each
                else:
                    self._fs.close(file)
            if names == self._names(path, may_be):
                return list(found.values())
            for each in found.values():
                self._fs.close(each.file)

    def _names(self, path: str, may_be: Callable[[str, str], bool]) -> dict[str, str]:
        found = {name: self._fs.stat(name) for name in self._fs.beside(path)}
        there = {name: status.identity for name, status in found.items() if status is not None}
        return {name: identity for name, identity in there.items() if may_be(name, identity)}

    def _may_be_same(self, tail: Tail, _: str, identity: str) -> bool:
        return identity == tail.identity

    def _is_same(self, tail: Tail, found: _Found) -> bool:
        return found.status.identity == tail.identity and self._has(found.file, tail.samples())

    def _may_hold_rest(self, tail: Tail, name: str, identity: str) -> bool:
        return self._may_be_copy(name, tail.origin) and identity not in self._tails and identity != tail.identity

    def _is_copy(self, tail: Tail, found: _Found) -> bool:
        return self._may_hold_rest(tail, found.path, found.status.identity) and self._has(found.file, tail.samples())

    def _retire(self, tail: Tail, now_s: float) -> list[Chunk]:
        """Close what stands still, and forget it if it has no name any more. For a moment it may have none while names change."""
        if now_s - tail.grew_s < QUIET_S or tail.seen is None:
            return []
        chunks = []
        if now_s - tail.named_s >= QUIET_S:
            lines = tail.finish()
            del self._tails[tail.identity]
            chunks.append(Chunk(tail.path, lines, {tail.identity: None}))
        self._close(tail)
        return chunks

    # ------------------------------------------------------------ what is in them

    def _try_step(self, tail: Tail, now_s: float) -> Chunk | None:
        """A file that cannot be read any more is opened again when it can, and keeps nobody else waiting."""
        try:
            return self._step(tail, now_s)
        except OSError as error:
            if tail.path not in self._unreadable:
                self._unreadable.add(tail.path)
                log.warning("%s cannot be read: %s", tail.path, error.strerror)
            self._close(tail)
            return None

    def _step(self, tail: Tail, now_s: float) -> Chunk | None:
        """The next bytes of one file, once it is known that they are of the content that was read before."""
        if tail.identity not in self._tails or not self._reopened(tail):
            return None
        assert tail.file is not None
        status = self._fs.fstat(tail.file)
        if status == tail.seen:
            return None
        data = self._fs.pread(tail.file, READ_BYTES, tail.read)
        if not self._has(tail.file, tail.samples_with(data)):
            chunks = self._replaced(tail, now_s)
            return _merged(chunks)
        at_end = tail.read + len(data) >= status.size
        lines = tail.take(data) if data else []
        if at_end:
            tail.seen = status
            if tail.is_copy:
                lines += tail.finish()
        if data:
            tail.grew_s = now_s
        return self._chunk(tail, lines) if lines else None

    def _reopened(self, tail: Tail) -> bool:
        if tail.file is not None:
            return True
        status = self._fs.stat(tail.path)
        if status is None or status.identity != tail.identity or status == tail.seen:
            return False
        file = self._fs.open(tail.path)
        if file is None:
            return False
        if self._fs.fstat(file).identity != tail.identity:
            self._fs.close(file)
            return False
        tail.file = file
        return True

    def _replaced(self, tail: Tail, now_s: float) -> list[Chunk]:
        """Its content is another than was read: what it held is in a copy, and it begins anew."""
        log.info("%s was truncated; it is read from its beginning", tail.path)
        chunks = self._copies(tail, now_s)
        tail.head, tail.offset, tail.last = b"", 0, b""
        tail.cutter = LineCutter(self._line_bytes_max)
        tail.seen = None
        chunks.append(self._chunk(tail, []))
        return [_merged(chunks)]

    def _copies(self, tail: Tail, now_s: float) -> list[Chunk]:
        """Follow the copies of what was read: one has the rest of it. Without one, what has no newline yet is a line."""
        chunks: list[Chunk] = []
        rest_is_read = not tail.read
        hold_rest, are_copies = partial(self._may_hold_rest, tail), partial(self._is_copy, tail)
        for path, file, status in self._find(tail.path, hold_rest, are_copies) if tail.read else ():
            if not rest_is_read:
                rest_is_read = True
                copy = self._restored(path, status.identity, tail.position())
            else:
                samples = self._samples_at(file, status.size)
                copy = Tail(path, status.identity, samples, LineCutter(self._line_bytes_max))
            copy.file, copy.is_copy = file, True
            copy.grew_s = copy.named_s = now_s
            self._tails = {copy.identity: copy, **self._tails}
            self._kept.pop(copy.identity, None)
            chunks.append(self._chunk(copy, []))
        if not rest_is_read and (lines := tail.finish()):
            chunks.append(Chunk(tail.path, lines, {}))
        return chunks

    def _may_be_copy(self, path: str, original: str) -> bool:
        return (
            path != original
            and path.startswith(original)
            and (not path.endswith(PACKED_SUFFIXES) or (self._compressed and path.endswith(COMPRESSED)))
        )

    def _notice_truncations(self, path: str, now_s: float) -> list[Chunk]:
        """Of files that this may be a copy of: to be compared with what they hold now."""
        chunks: list[Chunk] = []
        for tail in list(self._tails.values()):
            if tail.read and self._may_be_copy(path, tail.origin) and self._reopened(tail):
                assert tail.file is not None
                if not self._has(tail.file, tail.samples()):
                    chunks += self._replaced(tail, now_s)
        return chunks

    def _is_copy_of_one(self, path: str, file: int, status: Stat) -> bool:
        """Whether this is the copy of a file that will be truncated, or was and nobody has noticed yet."""
        for tail in self._tails.values():
            if not self._may_be_copy(path, tail.origin):
                continue
            if tail.read and status.size >= tail.read:
                if self._has(file, tail.samples()):
                    return True
                continue
            there = self._fs.stat(tail.path)
            if there is None or there.identity != tail.identity or not self._may_be_copy(path, tail.path):
                continue  # it was renamed: what is new is a file of its own
            if tail.read:
                # A copy that is not complete, as far as can be told from its beginning.
                head = tail.head[: status.size]
                if self._fs.pread(file, len(head), 0) == head:
                    return True
            elif status.size and self._reopened(tail):
                assert tail.file is not None
                if self._has(tail.file, self._samples_at(file, status.size)):
                    return True
        return False

    def _is_copy_of_any(self, file: int, status: Stat) -> bool:
        """Whether a packed file holds what was read before it was packed."""
        known = (tail.samples() for tail in self._tails.values() if 0 < tail.read <= status.size)
        return any(self._has(file, samples) for samples in known)

    def _has(self, file: int, samples: Samples) -> bool:
        head, end, last = samples
        return self._fs.pread(file, len(last), end - len(last)) == last and self._fs.pread(file, len(head), 0) == head

    def _samples_at(self, file: int, end: int) -> Samples:
        size = min(LAST_BYTES, end)
        return Samples(self._fs.pread(file, min(HEAD_BYTES, end), 0), end, self._fs.pread(file, size, end - size))

    # ------------------------------------------------------------ small things

    def _restored(self, path: str, identity: str, kept: Mapping[str, object]) -> Tail:
        samples = Samples(
            base64.b64decode(str(kept["head"])), int(str(kept["offset"])), base64.b64decode(str(kept["last"]))
        )
        tail = Tail(path, identity, samples, LineCutter(self._line_bytes_max, int(str(kept["piece"]))))
        tail.origin = str(kept["origin"])
        return tail

    def _chunk(self, tail: Tail, lines: list[Line]) -> Chunk:
        return Chunk(tail.path, lines, {tail.identity: tail.position()})

    def _close(self, tail: Tail) -> None:
        if tail.file is not None:
            self._fs.close(tail.file)
            tail.file = None


def _merged(chunks: Sequence[Chunk]) -> Chunk:
    """As one, to be kept together; the path is that of the last."""
    lines = [line for chunk in chunks for line in chunk.lines]
    return Chunk(chunks[-1].path, lines, {name: each for chunk in chunks for name, each in chunk.positions.items()})
