"""One machine's disk: what was written against what would survive, and a crash at any call.

Appended entries are in the page cache; a sync makes them durable a while later and reports it, unless a truncation or
an installation came between. A power cut keeps the synced entries and any number of those behind them; a killed
process loses nothing that it wrote. Epochs, truncations and installations are durable when the call returns.

Snapshots are made with the product's encoder while transactions go on, so they are fuzzy, and count only once the log
is durable up to their end. A few are kept, with the log behind the oldest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, Protocol

from ottla.keeper.member import Recovered
from ottla.keeper.proto.txns import Entry, decode_txn
from ottla.keeper.quorum import history
from ottla.keeper.server.tree import DataTree
from ottla.keeper.store import decode_snapshot, encode_snapshot
from tests.sim.loop import MS, Loop, Violation

IMAGES_KEPT = 3


class CrashError(Exception):
    """The machine stops between two instructions."""


class Machine(Protocol):
    """Whoever the disk belongs to."""

    def on_synced(self, zxid: int) -> None: ...
    def on_appending(self, entries: Sequence[Entry]) -> None: ...


class Image(NamedTuple):
    """A snapshot on disk."""

    zxid: int
    end_zxid: int
    chunks: tuple[bytes, ...]

    def tree(self) -> DataTree:
        return decode_snapshot(self.chunks, self.zxid).tree


class SimDisk:
    """Satisfies ``ottla.keeper.member.Disk``."""

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        machine: Machine,
        hit: Callable[[str], None],
        *,
        recent_max: int,
        snap_count: int,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._machine = machine
        self._hit = hit
        self._recent_max = recent_max
        self._snap_count = snap_count
        self.slow = 1
        """How many times longer than usual a sync takes."""
        self.crash_in: int | None = None
        """How many steps of persistence are left before the machine stops in the middle of one."""
        self.applied = 0
        """Transactions the member has applied, as it told us."""
        self._wiped: set[int] = set()
        self._wiped_base = 0
        self._generation = 0
        self._format()

    def _format(self) -> None:
        self.accepted_epoch = 0
        self.current_epoch = 0
        self.images = [Image(0, 0, tuple(encode_snapshot(DataTree())))]
        self.past: list[Entry] = []
        """What the oldest snapshot stands for. No server has this; the checks do."""
        self.log: list[Entry] = []
        self.zxids: list[int] = []
        self.durable = 0
        """How many entries of the log a power cut would spare."""
        self._stop_writing()

    def _stop_writing(self) -> None:
        """Whatever was under way is void."""
        self._generation += 1
        self._syncing = False
        self._writing = False
        self._since_image = 0

    # What is there.

    @property
    def base(self) -> int:
        return self.images[0].zxid

    @property
    def last_zxid(self) -> int:
        return self.zxids[-1] if self.zxids else self.base

    @property
    def is_blank(self) -> bool:
        return self.current_epoch == 0

    def has_durable(self, zxid: int) -> bool:
        at = bisect_right(self.zxids, zxid)
        return zxid <= self.base or (0 < at <= self.durable and self.zxids[at - 1] == zxid)

    def had_durable(self, zxid: int) -> bool:
        """True even if the disk has been lost since."""
        return self.has_durable(zxid) or zxid <= self._wiped_base or zxid in self._wiped

    @property
    def history(self) -> list[Entry]:
        """Everything, from the first transaction on."""
        return [*self.past, *self.log]

    # What a member asks for.

    def write_accepted_epoch(self, epoch: int) -> None:
        self._step()
        if epoch < self.accepted_epoch:
            raise Violation(f"Z3: epoch {epoch} promised after {self.accepted_epoch}")
        self.accepted_epoch = epoch
        self._step()

    def write_current_epoch(self, epoch: int) -> None:
        self._step()
        if not self.current_epoch <= epoch <= self.accepted_epoch:
            raise Violation(f"Z3: epoch {epoch} begun after {self.current_epoch}, {self.accepted_epoch} promised")
        if self.durable < len(self.log):
            raise Violation(f"Z2: epoch {epoch} recorded before its history is durable (ZOOKEEPER-4643)")
        self.current_epoch = epoch
        self._step()

    def append(self, entries: list[Entry]) -> None:
        self._step()
        last = self.last_zxid
        for entry in entries:
            if not history.follows(last, entry.zxid):
                raise Violation(f"Z4: a hole in the log, 0x{entry.zxid:x} behind 0x{last:x}")
            last = entry.zxid
        self._machine.on_appending(entries)
        self.log += entries
        self.zxids += [entry.zxid for entry in entries]
        if not self._syncing:
            self._start_sync()
        self._step()

    def truncate_to(self, zxid: int) -> tuple[int, DataTree]:
        self._step()
        fit = [image for image in self.images if image.end_zxid <= zxid]
        self._stop_writing()
        if not fit:
            self.durable = len(self.log)
            return self.last_zxid, self._replayed(self.images[-1])
        self.images = fit
        at = bisect_right(self.zxids, zxid)
        del self.log[at:], self.zxids[at:]
        self.durable = len(self.log)
        self._step()
        return self.last_zxid, self._replayed(fit[-1])

    def install(self, zxid: int, chunks: tuple[bytes, ...], past: list[Entry]) -> DataTree:
        """A leader's snapshot becomes the history; ``past`` is what it stands for."""
        self._step()
        snapshot = decode_snapshot(chunks, zxid)
        self._stop_writing()
        self.images = [Image(zxid, snapshot.end_zxid, chunks)]
        self.past, self.log, self.zxids, self.durable = past, [], [], 0
        self._step()
        return snapshot.tree

    def maybe_snapshot(self, tree: DataTree, applied: int) -> None:
        self.applied += applied
        self._since_image += applied
        if self._writing or self._since_image < self._snap_count:
            return
        self._step()
        self._writing, self._since_image = True, 0
        chunks = encode_snapshot(tree, slice_nodes=self._rng.choice((2, 5, 1000)))
        zxid = tree.last_zxid
        begun = take(chunks, self._rng.randint(0, 6))
        self._loop.after(
            self._rng.randint(1, 300) * MS, self._finish_image, self._generation, zxid, tree, begun, chunks
        )

    def _step(self) -> None:
        """A point between two instructions at which the machine may stop."""
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                self.crash_in = None
                raise CrashError

    # What happens meanwhile.

    def _start_sync(self) -> None:
        self._syncing = True
        delay_us = self.slow * int(200 + 4000 * self._rng.random() ** 4)
        self._loop.after(delay_us, self._synced, self._generation, self.last_zxid)

    def _synced(self, generation: int, zxid: int) -> None:
        if generation != self._generation:
            return
        self.durable = bisect_right(self.zxids, zxid)
        self._syncing = False
        if self.durable < len(self.log):
            self._start_sync()
        self._machine.on_synced(zxid)

    def _finish_image(
        self, generation: int, zxid: int, tree: DataTree, begun: list[bytes], rest: Iterator[bytes]
    ) -> None:
        if generation == self._generation:
            begun += rest
            self._publish(generation, Image(zxid, tree.last_zxid, tuple(begun)))

    def _publish(self, generation: int, image: Image) -> None:
        if generation != self._generation:
            return
        if not self.has_durable(image.end_zxid):
            self._loop.after(2 * MS, self._publish, generation, image)
            return
        self._writing = False
        self.images.append(image)
        if image.end_zxid > image.zxid:
            self._hit("snapshot written while transactions went on")
        if len(self.images) > IMAGES_KEPT:
            del self.images[0]
            at = bisect_right(self.zxids, self.base)
            self.past += self.log[:at]
            del self.log[:at], self.zxids[:at]
            self.durable -= at

    # What happens to the machine.

    def stop(self, *, power_cut: bool) -> None:
        """The process is gone; with the power, so is a part of what was not synced."""
        self._stop_writing()
        self.crash_in = None
        if power_cut:
            kept = self._rng.choice((self.durable, self._rng.randint(self.durable, len(self.log))))
            if kept < len(self.log):
                self._hit("lost an unsynced suffix")
            del self.log[kept:], self.zxids[kept:]

    def wipe(self) -> None:
        """Another disk, and nothing on it."""
        self._wiped.update(self.zxids[: self.durable])
        self._wiped_base = max(self._wiped_base, self.base)
        self._format()

    def recover(self) -> Recovered:
        """What a process finds when it starts. What it believes is durable from then on."""
        self.durable = len(self.log)
        image = self.images[-1] if self._rng.random() < 0.9 else self._rng.choice(self.images)
        if image is not self.images[-1]:
            self._hit("recovered from an older snapshot")
        tree = self._replayed(image)
        first = max(0, len(self.log) - self._recent_max)
        recent = history.Recent(self.zxids[first - 1] if first else self.base, count_max=self._recent_max)
        recent.append(self.log[first:])
        recent.applied_zxid = recent.last_zxid
        return Recovered(tree, recent, self.accepted_epoch, self.current_epoch)

    def _replayed(self, image: Image) -> DataTree:
        tree = image.tree()
        for entry in self.log[bisect_right(self.zxids, image.zxid) :]:
            tree.apply(decode_txn(entry.raw))
        return tree


def take(chunks: Iterator[bytes], count: int) -> list[bytes]:
    """The first ``count`` chunks, as far as there are so many."""
    return [chunk for _, chunk in zip(range(count), chunks, strict=False)]
