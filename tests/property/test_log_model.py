"""A log against a list: appends, reads, rolls, truncations, retention and restarts in any order."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log import Log, LogDirectory, TopicPartition
from ottla.records import Codec, Record, build_batch
from tests.unit.log.conftest import checked_only
from tests.unit.log.logs import NOW_MS, SMALL, check_indexes, contents

TP = TopicPartition("model", 0)
CONFIG = replace(SMALL, segment_bytes=900, index_interval_bytes=100, retention_ms=-1)
values = st.lists(st.binary(max_size=60), min_size=1, max_size=4)


class LogModel(RuleBasedStateMachine):
    """``records`` is what the log holds from ``start`` on; ``batches`` are where each starts and ends."""

    @initialize()
    def create(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", checked_only)
        self.folder = Path(tempfile.mkdtemp())
        self.now_ms = NOW_MS
        self.epoch = 0
        self.start = 0
        self.end = 0
        self.records: dict[int, Record] = {}
        self.batches: list[tuple[int, int]] = []
        self.directory = LogDirectory(self.folder)
        self.directory.load(lambda _: CONFIG, now_ms=NOW_MS)
        self.directory.create(TP, CONFIG, topic_id=None, now_ms=NOW_MS)

    @property
    def log(self) -> Log:
        return self.directory.logs[TP]

    @rule(values=values, codec=st.sampled_from(Codec), step=st.integers(-5, 50))
    def append(self, values: list[bytes], codec: Codec, step: int) -> None:
        self.now_ms += step
        made = [Record(b"k", value, self.now_ms + i) for i, value in enumerate(values)]
        data = build_batch(made, codec=codec)
        info = self.log.append_as_leader(data, leader_epoch=self.epoch, now_ms=self.now_ms)
        assert info.first_offset == self.end
        for i, record in enumerate(made):
            self.records[self.end + i] = record._replace(offset=self.end + i)
        self.batches.append((self.end, self.end + len(made)))
        self.end += len(made)

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush(now_ms=self.now_ms)
        self.directory.checkpoint()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.truncate_to(offset, now_ms=self.now_ms)
        cut = [first for first, last in self.batches if last > offset]
        self.batches = [(first, last) for first, last in self.batches if last <= offset]
        self.end = min((offset, self.end, *cut))
        self.records = {o: r for o, r in self.records.items() if o < self.end}
        self.start = min(self.start, self.end)
        self.epoch += 1

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.update_high_watermark(self.end)
        self.log.increment_log_start_offset(offset)
        self.log.delete_old_segments(now_ms=self.now_ms)
        self.log.delete_marked(now_ms=self.now_ms)
        self.directory.checkpoint()
        self.start = max(self.start, offset)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.directory.close(now_ms=self.now_ms)
        else:
            self.directory.abandon()
        self.directory = LogDirectory(self.folder)
        self.directory.load(lambda _: CONFIG, now_ms=self.now_ms)
        assert self.directory.was_clean == clean
        assert not self.directory.corrupt
        assert self.directory.recoveries[TP].truncated_bytes == 0

    @invariant()
    def same(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        expected = [record for offset, record in sorted(self.records.items()) if offset >= self.start]
        assert contents(log) == expected
        check_indexes(log)

    @invariant()
    def times(self) -> None:
        found = self.log.offset_for_timestamp(self.now_ms)
        later = [o for o, r in sorted(self.records.items()) if o >= self.start and r.timestamp >= self.now_ms]
        assert (None if found is None else found.offset) == (later[0] if later else None)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.abandon()
            shutil.rmtree(self.folder)
            self.patch.undo()


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
