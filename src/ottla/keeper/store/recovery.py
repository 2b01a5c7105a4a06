"""From files to a tree: which snapshot counts, which transactions follow it, and where to stop.

Reading only; what has to change on disk comes back as a ``Repair`` for the caller to carry out.

    1. The newest snapshot that reads without fault is loaded. Broken ones are passed over with a warning: an older
       one and a longer replay lead to the same tree.
    2. The log is replayed strictly behind it. Every transaction must *follow* the one before: the next number of the
       same epoch, or number 1 of a later epoch. Anything else is a hole, and a tree built across a hole is not
       what the ensemble agreed on.
    3. Where the bytes stop being entries, the log ends if nothing but padding or rubbish follows: a crash in the
       middle of a write. If whole entries follow, in that file or a later one, something in between is missing.
       Where the sync mark (``synced``) says that those bytes had not reached the disk, the log ends there, too;
       otherwise it is damage to acknowledged data, and the server refuses to start.
    4. A log that ends before the place up to which the sync mark says that it was synced has lost what was acknowledged
       (bytes zeroed, files cut or deleted), and the server refuses to start; unless the snapshot may hold it, or
       files follow that somebody else wrote, who may have cut ours as well.
    5. Digests are compared wherever a transaction carries one and the tree is not fuzzy any more. A mismatch is
       counted and logged, never a reason to refuse, as in ZooKeeper: the tree may differ, the history does not.

Snapshots are allowed to lie about nothing but one thing: they hold effects of transactions up to their end zxid. If
the log does not reach that far, the tree is ahead of ``last_zxid``; this is logged.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.errors import MarshallingError
from ottla.keeper.proto.txns import DIGEST_VERSION, Entry, Txn, decode_txn
from ottla.keeper.server.tree import DataTree
from ottla.keeper.store.durable import Numbered, numbered
from ottla.keeper.store.entries import LOG_PREFIX, follows, log_name
from ottla.keeper.store.logreader import LogReader, find_entry
from ottla.keeper.store.snapshot import GZ_SUFFIX, Snapshot, decode, opened
from ottla.keeper.store.synced import SYNCED_NAME, Mark

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_ADVICE = (
    "Restore the file from a backup; or, if other servers of the ensemble hold the data, empty this server's data "
    "directories and let it synchronize from the leader"
)


class Repair(NamedTuple):
    """What is left to do on disk once the log has been read."""

    scanned: list[Path]
    """Files whose entries are believed from now on, so they have to be synced."""
    end: tuple[int, int]
    """Where the log ends then: the zxid in the name of the last of them, and its size."""
    cut: tuple[Path, int] | None
    """A file and the size to cut it to."""
    damage: str | None
    """What is cut off; None if it is nothing but padding."""
    delete: list[Path]
    """Files without a believable entry, newest first."""


class Loaded(NamedTuple):
    tree: DataTree
    snapshot_zxid: int
    last_zxid: int
    replayed: int
    recent: list[Entry]
    recent_base: int
    digest_mismatches: int
    repair: Repair | None
    """None if only a part of the log was read."""


class Recent:
    """The last entries of an unbroken run, within two bounds, and the zxid in front of the first: ``base``."""

    def __init__(self, snapshot_zxid: int, *, count_max: int, bytes_max: int) -> None:
        self.base = -1
        self._snapshot_zxid = snapshot_zxid
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: deque[Entry] = deque()

    @property
    def last_zxid(self) -> int:
        return self._entries[-1].zxid if self._entries else self.base

    def append(self, entry: Entry) -> None:
        entries = self._entries
        if self.base < 0 or not follows(entry.zxid, after=self.last_zxid):
            # In front of the first entry of a file lies what nobody has looked at, so the entry itself is the base;
            # unless it lies behind the snapshot, which the walk has checked it follows.
            self._restart(min(entry.zxid, self._snapshot_zxid))
            if entry.zxid == self.base:
                return
        entries.append(entry)
        self._bytes += len(entry.raw)
        while entries and (len(entries) > self._count_max or self._bytes > self._bytes_max):
            dropped = entries.popleft()
            self.base = dropped.zxid
            self._bytes -= len(dropped.raw)

    def ending_at(self, zxid: int) -> list[Entry]:
        """The run, if it leads up to ``zxid``; else none, with that as the base."""
        if self.last_zxid != zxid:
            self._restart(zxid)
        return list(self._entries)

    def _restart(self, base: int) -> None:
        self.base = base
        self._bytes = 0
        self._entries.clear()


def load_snapshot(files: Sequence[Numbered], *, end_zxid_max: int | None = None) -> tuple[int, Snapshot] | None:
    """The newest of ``files`` that is whole and shows nothing behind ``end_zxid_max``; None if there is none."""
    for file in reversed(files):
        if file.compression not in ("", "gz"):
            raise CorruptionError(
                f"{file.path}: snapshots compressed by {file.compression} are not read here. Start ZooKeeper once with "
                f"snapshot.compression.method unset or gz, so that it writes another"
            )
        try:
            snapshot = read_snapshot(file.path, file.zxid)
        except CorruptionError as error:
            logger.warning("passing over a broken snapshot: %s", error)
            continue
        if end_zxid_max is None or snapshot.end_zxid <= end_zxid_max:
            return file.zxid, snapshot
    return None


def read_snapshot(path: Path, zxid: int) -> Snapshot:
    size = path.stat().st_size if path.suffix != GZ_SUFFIX else None
    try:
        with opened(path) as file:
            return decode(iter(lambda: file.read(_READ_BYTES), b""), zxid, size=size)
    except CorruptionError as error:
        raise CorruptionError(f"{path}: {error}") from error


def replay(
    snapshot_zxid: int,
    snapshot: Snapshot,
    log_directory: Path,
    *,
    mark: Mark | None,
    recent_count: int,
    recent_bytes: int,
    limit: int | None = None,
) -> Loaded:
    """Apply the log to a snapshot, up to ``limit`` if given."""
    tree = snapshot.tree
    recent = Recent(snapshot_zxid, count_max=recent_count, bytes_max=recent_bytes)
    walk = LogWalk(log_directory, snapshot_zxid, mark)
    check = DigestCheck(snapshot_zxid, snapshot)
    replayed = 0
    for entry in walk:
        if limit is not None and entry.zxid > limit:
            break
        recent.append(entry)
        if entry.zxid > snapshot_zxid:
            txn = walk.decode(entry)
            tree.apply(txn)
            check.after(txn, tree)
            replayed += 1
    last_zxid = tree.last_zxid
    if limit is None and last_zxid < snapshot.end_zxid:
        logger.warning(
            "the log ends at 0x%x, but snapshot 0x%x shows effects up to 0x%x: part of the log is gone",
            last_zxid,
            snapshot_zxid,
            snapshot.end_zxid,
        )
    if limit is None:
        walk.require_synced()
    repair = walk.repair() if limit is None else None
    entries = recent.ending_at(last_zxid)
    return Loaded(tree, snapshot_zxid, last_zxid, replayed, entries, recent.base, check.finish(), repair)


class LogWalk:
    """The entries behind a snapshot in order, and the judgment on whatever is not one."""

    def __init__(self, log_directory: Path, base_zxid: int, mark: Mark | None) -> None:
        self._log_directory = log_directory
        self._files = needed_logs(numbered(log_directory, LOG_PREFIX), base_zxid)
        self._base_zxid = base_zxid
        self._mark = mark
        self._believed = -1  # the file that holds the last believed entry
        self._end = 0  # the offset behind that entry
        self._damage: str | None = None  # what follows there
        self._seen = -1
        self._reader = LogReader(Path())
        self._torn: LogReader | None = None  # of the file before, if it ended in something that is no entry

    def __iter__(self) -> Iterator[Entry]:
        for index, file in enumerate(self._files):
            self._reader = LogReader(file.path)
            for entry in self._reader:
                if not self._continues(index, entry.zxid):
                    return
                self._seen = entry.zxid
                yield entry
            if index == self._believed:
                self._end, self._damage = self._reader.end, self._reader.damage
            if self._broken(index):
                return
            self._torn = self._reader if self._reader.damage is not None else None

    def decode(self, entry: Entry) -> Txn:
        """The transaction of the entry that was yielded last."""
        try:
            return decode_txn(entry.raw)
        except MarshallingError as error:
            self._refuse(f"0x{entry.zxid:x} cannot be read: {error}")

    def repair(self) -> Repair:
        """Once the walk is over: what to do so that the files end where it did."""
        paths = [file.path for file in self._files[: self._believed + 1]]
        cut = (paths[-1], self._end) if paths and paths[-1].stat().st_size > self._end else None
        behind = [file.path for file in self._files[self._believed + 1 :] if file.zxid > self._base_zxid]
        return Repair(paths, self._ends_at(), cut, self._damage, behind[::-1])

    def _ends_at(self) -> tuple[int, int]:
        return (self._files[self._believed].zxid, self._end) if self._believed >= 0 else (0, 0)

    def require_synced(self) -> None:
        """Once the walk is over: refuse where something is gone that was synced and lies behind the snapshot."""
        mark, end = self._mark, self._ends_at()
        if mark is None or end >= (mark.file_zxid, mark.offset):
            return
        if self._files and self._files[-1].zxid > mark.newest_zxid:
            return
        # Of a file that begins before the snapshot, only what follows an entry behind it is known to be behind it.
        behind = mark.file_zxid > self._base_zxid or (mark.file_zxid == end[0] and self._seen >= self._base_zxid)
        if behind:
            file = self._log_directory / log_name(mark.file_zxid)
            where = (
                f"ends at offset {self._end}" if mark.file_zxid == end[0] else "holds no transaction or is not there"
            )
            raise CorruptionError(
                f"{file}: {where}, and was synced up to offset {mark.offset}: acknowledged transactions are gone. "
                f"The last one left is 0x{max(self._base_zxid, self._seen):x}. {_ADVICE}. To start with what is left, as "
                f"from a copy that was made while the server ran, delete {self._log_directory / SYNCED_NAME}"
            )

    def _continues(self, index: int, zxid: int) -> bool:
        """True if the entry carries on the history, False if the history ends before it."""
        opens = index != self._believed
        if opens and zxid != self._files[index].zxid:
            self._refuse(f"the file begins with 0x{zxid:x}")
        after = max(self._base_zxid, self._seen)
        if zxid <= self._seen or (zxid > self._base_zxid and not follows(zxid, after=after)):
            # Inside a file entries abut, so no lost page explains a hole there.
            if opens and self._believed >= 0 and self._unsynced(self._believed, self._end):
                return False
            if opens and self._torn is not None:
                name = self._reader.path.name
                self._reader = self._torn
                self._refuse(f"{self._torn.damage}, yet {name} follows with 0x{zxid:x}")
            self._refuse(f"0x{zxid:x} comes next, and what belongs between is missing")
        self._believed = index
        return True

    def _broken(self, index: int) -> bool:
        """True if the history ends in this file although entries follow there."""
        reader = self._reader
        if reader.damage is None:
            return False
        at = find_entry(reader.path, reader.end, after=max(self._base_zxid, self._seen))
        if at is None:
            return False
        if not self._unsynced(index, reader.end):
            self._refuse(f"{reader.damage}, yet a whole one follows at offset {at}")
        return True

    def _unsynced(self, index: int, offset: int) -> bool:
        newest = self._files[-1].zxid
        if self._mark is None or not self._mark.may_be_unsynced(self._files[index].zxid, offset, newest):
            return False
        logger.warning(
            "%s: offset %d: the log ends here; what follows was never synced, and parts of it are missing",
            self._files[index].path,
            offset,
        )
        return True

    def _refuse(self, what: str) -> NoReturn:
        last = max(self._base_zxid, self._seen)
        raise CorruptionError(
            f"{self._reader.path}: offset {self._reader.end}: {what}. The last good transaction is 0x{last:x}. {_ADVICE}"
        )


class DigestCheck:
    """Compares the tree with the digests that the writers of the files recorded."""

    def __init__(self, snapshot_zxid: int, snapshot: Snapshot) -> None:
        self.mismatches = 0
        self._snapshot = snapshot
        # The snapshot is fuzzy up to this transaction. A digest from before its start says nothing about it.
        self._fuzzy_until = snapshot.digest_zxid if snapshot.digest_zxid >= snapshot_zxid else 0
        self._doubt = ""
        if 0 < self._fuzzy_until == snapshot_zxid:
            self._leave_fuzziness(snapshot.tree)

    def after(self, txn: Txn, tree: DataTree) -> None:
        if txn.zxid < self._fuzzy_until:
            return
        if txn.zxid == self._fuzzy_until:
            self._leave_fuzziness(tree)
        if txn.digest is not None and txn.digest_version == DIGEST_VERSION:
            if tree.digest == txn.digest:
                # ZooKeeper changes its tree a moment before it says so: a snapshot may be one transaction ahead.
                self._doubt = ""
            else:
                self._report(f"the tree differs from the leader's at 0x{txn.zxid:x}")

    def finish(self) -> int:
        if self._doubt:
            self._report(self._doubt)
        return self.mismatches

    def _leave_fuzziness(self, tree: DataTree) -> None:
        snapshot, self._fuzzy_until = self._snapshot, 0
        if snapshot.digest_version == DIGEST_VERSION and tree.digest != snapshot.digest:
            self._doubt = f"the tree differs from what the snapshot said about 0x{snapshot.digest_zxid:x}"

    def _report(self, what: str) -> None:
        if self.mismatches == 0:
            logger.error("%s; whatever differs from now on is only counted", what)
        self.mismatches += 1


def needed_logs(files: Sequence[Numbered], zxid: int) -> list[Numbered]:
    """The log files that may hold transactions behind ``zxid``: those that start later, and the one before them."""
    earlier = [file for file in files if file.zxid <= zxid]
    return [*earlier[-1:], *files[len(earlier) :]]
