"""What a log remembers of its producers, against a model: retries, gaps, epochs, the wrap of sequences, rolls, restarts, expiry.

The log starts with messages of magic 0 or 1, as one that was taken over may.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.log import Log, LogDirectory, TopicPartition
from ottla.log.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from ottla.records import Codec, Record, build_batch
from ottla.records.batch import SEQUENCES
from ottla.records.legacy import read_any
from tests.unit.log.conftest import checked_only
from tests.unit.log.logs import NOW_MS, SMALL
from tests.unit.records.old import old_run

TP = TopicPartition("model", 0)
EXPIRATION_MS = 1000
CONFIG = replace(SMALL, segment_bytes=700, retention_ms=-1, producer_id_expiration_ms=EXPIRATION_MS)
OLD = 10
producers = st.integers(1, 3)


class Known:
    """One producer: where its sequence stands, and the last batches that a retry is told the offset of."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.next = 0
        self.heard_ms = 0
        self.is_loaded = False
        self.batches: list[tuple[int, int, int]] = []
        """Sequence, number of records, offset; of the last five, or after a restart of those that are in the log, and of the last."""


class ProducersModel(RuleBasedStateMachine):
    @initialize(magic=st.integers(0, 1), codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
    def create(self, magic: int, codec: Codec) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", checked_only)
        self.folder = Path(tempfile.mkdtemp())
        self.now_ms = NOW_MS
        self.known: dict[int, Known] = {}
        self.values = [b"v%d" % (i % 5) for i in range(OLD)]
        self.start = 0
        (self.folder / str(TP)).mkdir()
        old = b"".join(old_run(magic, codec, first=first, timestamp=NOW_MS - 100) for first in range(0, OLD, 5))
        (self.folder / str(TP) / f"{0:020d}.log").write_bytes(old)
        self._open()

    def _open(self) -> None:
        self.directory = LogDirectory(self.folder)
        self.directory.load(lambda _: CONFIG, now_ms=self.now_ms)
        assert not self.directory.corrupt
        assert self.directory.recoveries[TP].truncated_bytes == 0

    @property
    def log(self) -> Log:
        return self.directory.logs[TP]

    def send(self, producer: int, epoch: int, sequence: int, count: int) -> tuple[int, bool]:
        values = [b"%d/%d/%d" % (producer, epoch, (sequence + i) % SEQUENCES) for i in range(count)]
        data = build_batch(
            [Record(b"k", value, self.now_ms) for value in values],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        info = self.log.append_as_leader(data, leader_epoch=0, now_ms=self.now_ms)
        if not info.duplicate:
            assert info.first_offset == len(self.values)
            self.values += values
        return info.first_offset, info.duplicate

    @rule(producer=producers, count=st.integers(1, 3), first=st.sampled_from([0, 5, SEQUENCES - 2, SEQUENCES - 1]))
    def append(self, producer: int, count: int, first: int) -> None:
        """The next of a known one, or of one that is not known and starts anywhere."""
        known = self.known.get(producer)
        if known is None:
            known = self.known[producer] = Known(0)
            known.next = first
        offset, duplicate = self.send(producer, known.epoch, known.next, count)
        assert not duplicate
        known.batches = [*known.batches[-4:], (known.next, count, offset)]
        known.next = (known.next + count) % SEQUENCES
        known.heard_ms = self.now_ms

    @rule(producer=producers, data=st.data())
    def retry(self, producer: int, data: st.DataObject) -> None:
        known = self.known.get(producer)
        if known is not None and known.batches:
            sequence, count, offset = data.draw(st.sampled_from(known.batches))
            assert self.send(producer, known.epoch, sequence, count) == (offset, True)

    @rule(producer=producers, gap=st.integers(1, 5))
    def leave_a_gap(self, producer: int, gap: int) -> None:
        known = self.known.get(producer)
        if known is not None:
            with pytest.raises(OutOfOrderSequenceError):
                self.send(producer, known.epoch, (known.next + gap) % SEQUENCES, 1)

    @rule(producer=producers)
    def new_epoch(self, producer: int) -> None:
        known = self.known.get(producer)
        if known is None:
            return
        with pytest.raises(OutOfOrderSequenceError):
            self.send(producer, known.epoch + 1, 7, 1)
        fresh = self.known[producer] = Known(known.epoch + 1)
        offset, _ = self.send(producer, fresh.epoch, 0, 1)
        fresh.batches, fresh.next, fresh.heard_ms = [(0, 1, offset)], 1, self.now_ms
        with pytest.raises(InvalidProducerEpochError):
            self.send(producer, known.epoch, known.next, 1)

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.now_ms)

    @rule(clean=st.booleans(), flushed=st.booleans())
    def restart(self, clean: bool, flushed: bool) -> None:
        if flushed:
            self.log.flush(now_ms=self.now_ms)
            self.directory.checkpoint()
        if clean:
            self.directory.close(now_ms=self.now_ms)
        else:
            self.directory.abandon()
        self._open()
        for known in self.known.values():
            known.is_loaded = True
        self._forget_deleted()
        self._forget_expired()

    def _forget_deleted(self) -> None:
        """What was read back from a snapshot is the last batch of each; the others are in the log as long as they are."""
        first = self.log.segments[0].base_offset
        for known in self.known.values():
            if known.is_loaded:
                known.batches = [*(each for each in known.batches[:-1] if each[2] >= first), *known.batches[-1:]]

    @rule(step_ms=st.integers(1, 600))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self._forget_expired()

    def _forget_expired(self) -> None:
        self.log.producers.expire(self.now_ms)
        self.known = {p: k for p, k in self.known.items() if self.now_ms - k.heard_ms < EXPIRATION_MS}

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        """Retention by start offset takes records, and nothing that is known of who wrote them."""
        self.start = data.draw(st.integers(self.start, len(self.values)))
        self.log.update_high_watermark(len(self.values))
        self.log.increment_log_start_offset(self.start)
        self.log.delete_old_segments(now_ms=self.now_ms)
        self.log.delete_marked(now_ms=self.now_ms)
        self.directory.checkpoint()
        self._forget_deleted()

    @invariant()
    def same(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, len(self.values))
        found = {}
        for segment in log.segments:
            data = segment.file.path.read_bytes()[: segment.size]
            for located in segment.batches():
                found.update({record.offset: record.value for record in read_any(data, located.position)})
        assert [found[offset] for offset in range(self.start, len(self.values))] == self.values[self.start :]

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.abandon()
            shutil.rmtree(self.folder)
            self.patch.undo()


TestProducersModel = ProducersModel.TestCase
TestProducersModel.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
