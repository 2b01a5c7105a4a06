"""A compacted log against a list: whatever is appended, and however often it is cleaned, of each key the last value stays."""

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
from ottla.log.cleaner.job import Resources
from ottla.records import AppendOrigin, Codec, Record, build_batch, read_batch
from tests.unit.log.cleaning import clean_log
from tests.unit.log.conftest import checked_only
from tests.unit.log.logs import NOW_MS, SMALL, check_indexes, contents, marker

TP = TopicPartition("model", 0)
RETENTION_MS = 1000
CONFIG = replace(
    SMALL,
    segment_bytes=900,
    index_interval_bytes=100,
    cleanup_policy=frozenset(("compact",)),
    delete_retention_ms=RETENTION_MS,
)
keyed = st.tuples(st.integers(0, 7), st.one_of(st.none(), st.binary(max_size=40)), st.integers(-20, 20))
batches = st.lists(keyed, min_size=1, max_size=5)


class Batch:
    """One that was appended: the offsets of its records, and when its marks of deleted keys may go."""

    def __init__(self, first: int, records: list[Record], producer_id: int | None) -> None:
        self.first = first
        self.next = first + len(records)
        self.producer_id = producer_id
        self.records = {record.offset: record for record in records}
        self.is_aborted = False
        self.is_decided = producer_id is None
        self.horizon_ms: int | None = None


class CleanerModel(RuleBasedStateMachine):
    @initialize()
    def create(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", checked_only)
        self.folder = Path(tempfile.mkdtemp())
        self.now_ms = NOW_MS
        self.end = 0
        self.batches: list[Batch] = []
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.directory = LogDirectory(self.folder)
        self.directory.load(lambda _: CONFIG, now_ms=NOW_MS)
        self.directory.create(TP, CONFIG, topic_id=None, now_ms=NOW_MS)

    @property
    def log(self) -> Log:
        return self.directory.logs[TP]

    @rule(
        made=batches,
        codec=st.sampled_from(Codec),
        producer_id=st.sampled_from((None, None, 1, 2)),
        transactional=st.booleans(),
    )
    def append(
        self, made: list[tuple[int, bytes | None, int]], codec: Codec, producer_id: int | None, transactional: bool
    ) -> None:
        in_transaction = producer_id is not None and (transactional or producer_id in self.open)
        records = [Record(b"key %d" % key, value, self.now_ms + step) for key, value, step in made]
        sequence = self.sequences.get(producer_id or 0, 0)
        data = build_batch(
            records,
            codec=codec,
            producer_id=-1 if producer_id is None else producer_id,
            producer_epoch=-1 if producer_id is None else 0,
            base_sequence=-1 if producer_id is None else sequence,
            is_transactional=in_transaction,
        )
        self.log.append_as_leader(data, leader_epoch=0, now_ms=self.now_ms)
        if producer_id is not None:
            self.sequences[producer_id] = sequence + len(made)
        if producer_id is not None and in_transaction:
            self.open.add(producer_id)
        numbered = [record._replace(offset=self.end + index) for index, record in enumerate(records)]
        self.batches.append(Batch(self.end, numbered, producer_id if in_transaction else None))
        self.end += len(made)
        self.log.update_high_watermark(self.end)

    @rule(producer_id=st.sampled_from((1, 2)), commit=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        if producer_id not in self.open:
            return
        data = marker(producer_id, commit=commit)
        self.log.append_as_leader(data, leader_epoch=0, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR)
        self.open.discard(producer_id)
        for batch in self.batches:
            if batch.producer_id == producer_id and not batch.is_decided:
                batch.is_decided, batch.is_aborted = True, not commit
        self.end += 1
        self.log.update_high_watermark(self.end)

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.now_ms)

    @rule(passes_ms=st.sampled_from((1, RETENTION_MS // 2, RETENTION_MS + 1)), keys=st.sampled_from((2, 5, 100)))
    def clean(self, passes_ms: int, keys: int) -> None:
        self.now_ms += passes_ms
        job, outcome = clean_log(
            self.log, now_ms=self.now_ms, resources=Resources(dedupe_bytes=16 * (keys + 1), load_factor=1.0)
        )
        assert outcome.keys <= keys
        self.directory.checkpoint_cleaned()
        rewritten = next(base for base in job.bases if base >= outcome.cleaned_to) if len(job.bases) > 1 else 0
        last = {
            record.key: offset
            for batch in self.batches
            if not batch.is_aborted
            for offset, record in sorted(batch.records.items())
            if offset < outcome.cleaned_to
        }
        for batch in self.batches:
            if batch.first < rewritten:
                self._clean(batch, last, outcome.cleaned_to)

    def _clean(self, batch: Batch, last: dict[bytes | None, int], cleaned_to: int) -> None:
        if batch.is_aborted:
            batch.records = {}
        drop_marks = batch.horizon_ms is not None and batch.horizon_ms <= self.now_ms
        for offset, record in list(batch.records.items()):
            is_last = offset >= cleaned_to or last[record.key] == offset
            if not is_last or (record.value is None and drop_marks and offset < cleaned_to):
                del batch.records[offset]
        if batch.horizon_ms is None and any(record.value is None for record in batch.records.values()):
            batch.horizon_ms = self.now_ms + RETENTION_MS

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        sequences = {entry.producer_id: entry.last_sequence for entry in self.log.producers.entries.values()}
        if clean:
            self.directory.close(now_ms=self.now_ms)
        else:
            self.directory.abandon()
        self.directory = LogDirectory(self.folder)
        self.directory.load(lambda _: CONFIG, now_ms=self.now_ms)
        assert not self.directory.corrupt
        assert self.directory.recoveries[TP].truncated_bytes == 0
        self.log.update_high_watermark(self.end)
        found = {entry.producer_id: entry.last_sequence for entry in self.log.producers.entries.values()}
        assert found == sequences

    @invariant()
    def same(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (0, self.end)
        expected = [record for batch in self.batches for _, record in sorted(batch.records.items())]
        found = [record for record in contents(log) if not _is_mark(record)]
        assert found == expected
        check_indexes(log)

    @invariant()
    def committed(self) -> None:
        """Whoever reads committed records only is told of every aborted one that is left."""
        aborted = self.log.aborted_transactions(0, self.end)
        for batch in self.batches:
            for offset in batch.records if batch.is_decided else ():
                told = [a for a in aborted if a.producer_id == batch.producer_id]
                assert batch.is_aborted == any(a.first_offset <= offset <= a.last_offset for a in told)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.abandon()
            shutil.rmtree(self.folder)
            self.patch.undo()


def _is_mark(record: Record) -> bool:
    return not (record.key or b"").startswith(b"key")


TestCleanerModel = CleanerModel.TestCase
TestCleanerModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_a_cleaned_batch_is_still_read_by_what_reads_any(tmp_path: Path) -> None:
    """The bytes are those of a batch that a client could have sent, but for what is missing."""
    directory = LogDirectory(tmp_path)
    directory.load(lambda _: CONFIG, now_ms=NOW_MS)
    log = directory.create(TP, CONFIG, topic_id=None, now_ms=NOW_MS)
    for number in range(30):
        made = [Record(b"key %d" % (i % 3), b"%d.%d" % (number, i), NOW_MS + i) for i in range(4)]
        log.append_as_leader(build_batch(made, codec=Codec.ZSTD), leader_epoch=0, now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    clean_log(log, now_ms=NOW_MS)
    found = log.read(0, 1 << 20)
    assert found.range is not None
    assert [record.offset for record in read_batch(found.range.read())] == [117, 118, 119]
    directory.abandon()
