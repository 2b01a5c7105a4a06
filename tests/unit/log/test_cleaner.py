"""The rules of compaction, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log import Log, LogDirectory, TopicPartition
from ottla.log.cleaner.filth import filth, filthiest, needs_cleaning
from ottla.log.cleaner.groups import Extent, group_segments
from ottla.log.cleaner.job import Cleaned, Resources, make_job
from ottla.log.cleaner.round import clean
from ottla.log.cleaner.sift import SLOT_BYTES, OffsetMap, shifted
from ottla.records import AppendOrigin, Codec, Record, build_batch, frames, read_batch
from ottla.records.batch import DELETE_HORIZON_FLAG
from ottla.records.legacy import read_any
from tests.unit.log.cleaning import clean_log
from tests.unit.log.logs import NOW_MS, SMALL, contents, idempotent, marker
from tests.unit.records.old import old_run

TP = TopicPartition("t", 0)
DAY_MS = 86_400_000
COMPACTED = replace(SMALL, cleanup_policy=frozenset(("compact",)), delete_retention_ms=DAY_MS)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    made = LogDirectory(tmp_path)
    made.load(lambda _: COMPACTED, now_ms=NOW_MS)
    yield made
    made.abandon()


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    return directory.create(TP, COMPACTED, topic_id=None, now_ms=NOW_MS)


def put(log: Log, *pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE, at_ms: int = NOW_MS) -> None:
    data = build_batch([Record(key, value, at_ms) for key, value in pairs], codec=codec)
    log.append_as_leader(data, leader_epoch=0, now_ms=at_ms)


def sealed(log: Log) -> Log:
    log.update_high_watermark(log.log_end_offset)
    log.roll(now_ms=NOW_MS)
    return log


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in contents(log)]


def test_the_last_value_of_a_key_stays_and_keeps_its_offset(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"), (b"c", b"1"))
    _, outcome = clean_log(sealed(log), now_ms=NOW_MS)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]
    assert outcome.cleaned_to == 4
    assert outcome.keys == 3


def test_nothing_of_the_active_segment_is_touched(log: Log) -> None:
    put(log, (b"a", b"1"))
    sealed(log)
    put(log, (b"a", b"2"))
    clean_log(log, now_ms=NOW_MS)
    assert pairs(log) == [(0, b"a", b"1"), (1, b"a", b"2")]


def test_nothing_behind_the_last_stable_offset_is_touched(log: Log) -> None:
    put(log, (b"a", b"1"))
    sealed(log)
    log.append_as_leader(idempotent(7, 0, transactional=True), leader_epoch=0, now_ms=NOW_MS)
    put(log, (b"a", b"2"))
    sealed(log)
    found = filth(log, now_ms=NOW_MS)
    assert found.first_uncleanable_offset == 1
    clean_log(log, now_ms=NOW_MS)
    assert (0, b"a", b"1") in pairs(log)


def test_the_mark_of_a_deleted_key_stays_for_its_time_and_goes_then(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    sealed(log)
    clean_log(log, now_ms=NOW_MS)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", None)]
    header = next(located.header for located in log.batches(2))
    assert header.attributes & DELETE_HORIZON_FLAG
    assert header.base_timestamp == NOW_MS + DAY_MS
    assert contents(log)[1].timestamp == NOW_MS
    for passed_ms, still_there in ((DAY_MS - 1, True), (DAY_MS, False)):
        clean_log(log, now_ms=NOW_MS + passed_ms)
        assert ((2, b"a", None) in pairs(log)) is still_there


def test_a_horizon_that_was_set_is_not_set_again(log: Log) -> None:
    put(log, (b"a", None), (b"b", b"1"))
    clean_log(sealed(log), now_ms=NOW_MS)
    put(log, (b"b", b"2"))
    clean_log(sealed(log), now_ms=NOW_MS + 5)
    header = next(iter(log.batches(0))).header
    assert header.base_timestamp == NOW_MS + DAY_MS
    assert header.record_count == 1


@pytest.mark.parametrize("codec", Codec)
def test_what_is_left_of_a_batch_is_packed_as_it_was(log: Log, codec: Codec) -> None:
    put(log, (b"a", b"1" * 100), (b"b", b"1" * 100), (b"c", b"1" * 100), codec=codec)
    put(log, (b"a", b"2"), codec=codec)
    clean_log(sealed(log), now_ms=NOW_MS)
    header = next(iter(log.batches(0))).header
    assert header.codec_id == codec
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 2)
    assert [offset for offset, _, _ in pairs(log)] == [1, 2, 3]


def test_a_record_without_a_key_goes(log: Log) -> None:
    log.configure(SMALL)  # as it was before the topic was made a compacted one
    put(log, (None, b"1"), (b"a", b"1"))
    log.configure(COMPACTED)
    clean_log(sealed(log), now_ms=NOW_MS)
    assert pairs(log) == [(1, b"a", b"1")]


def test_aborted_records_go_at_once_and_their_mark_when_its_time_has_come(log: Log) -> None:
    put(log, (b"k", b"before"))
    log.append_as_leader(idempotent(7, 0, transactional=True), leader_epoch=0, now_ms=NOW_MS)
    log.append_as_leader(marker(7, commit=False), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(idempotent(7, 1, transactional=True), leader_epoch=0, now_ms=NOW_MS)
    log.append_as_leader(marker(7, commit=True), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    put(log, (b"k", b"after"))
    sealed(log)
    clean_log(log, now_ms=NOW_MS)
    offsets = [located.header.base_offset for located in log.batches(0)]
    # The aborted batch is gone, its mark is not yet; 3 says which sequence its producer is at.
    assert offsets == [2, 3, 4, 5]
    assert len(log.aborted_transactions(0, 6)) == 1
    clean_log(log, now_ms=NOW_MS + 1)
    assert log.aborted_transactions(0, 6) == []
    clean_log(log, now_ms=NOW_MS + 2 + DAY_MS)
    kept = [located.header for located in log.batches(0)]
    # The emptied batch is one of a transaction, so the mark of that stays with it.
    assert [(header.base_offset, header.record_count) for header in kept] == [(3, 0), (4, 1), (5, 1)]


def test_the_last_batch_of_a_producer_stays_without_records(log: Log) -> None:
    log.append_as_leader(idempotent(9, 0, count=3), leader_epoch=0, now_ms=NOW_MS)
    put(log, (b"k", b"other"))
    clean_log(sealed(log), now_ms=NOW_MS)
    header = next(iter(log.batches(0))).header
    assert (header.record_count, header.last_sequence, header.last_offset) == (0, 2, 2)
    assert log.producers.entries[9].last_sequence == 2
    assert pairs(log) == [(3, b"k", b"other")]


def test_a_map_that_is_full_ends_the_round_where_it_is(log: Log) -> None:
    for number in range(6):
        put(log, (b"%d" % number, b"1"))
    put(log, (b"0", b"2"))
    sealed(log)
    _, first = clean_log(log, now_ms=NOW_MS, resources=Resources(dedupe_bytes=4 * SLOT_BYTES, load_factor=0.75))
    assert (first.cleaned_to, first.keys) == (3, 3)
    assert len(pairs(log)) == 7
    found = filth(log, now_ms=NOW_MS)
    assert found.first_dirty_offset == 3
    clean_log(log, now_ms=NOW_MS)
    assert [key for _, key, _ in pairs(log)] == [b"1", b"2", b"3", b"4", b"5", b"0"]


def test_segments_that_got_small_become_one(log: Log) -> None:
    for number in range(60):
        put(log, (b"k", b"%d" % number * 60))
    sealed(log)
    before = len(log.segments)
    assert before > 3
    clean_log(log, now_ms=NOW_MS)
    clean_log(log, now_ms=NOW_MS)
    assert len(log.segments) == 2
    assert pairs(log)[-1][0] == 59


def test_a_fetch_that_holds_a_file_reads_what_it_found_there(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    sealed(log)
    held = log.read(0, 1 << 20).range
    assert held is not None
    clean_log(log, now_ms=NOW_MS)
    log.delete_marked(now_ms=NOW_MS + DAY_MS)
    assert [record.value for record in read_batch(held.read())] == [b"1"]
    assert pairs(log) == [(1, b"a", b"2")]


def test_what_was_cut_off_meanwhile_does_not_come_back(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    sealed(log)
    put(log, (b"a", b"3"))
    job = make_job(log, filth(log, now_ms=NOW_MS), Resources(), now_ms=NOW_MS)
    log.truncate_to(1, now_ms=NOW_MS)
    put(log, (b"b", b"1"))
    sealed(log)
    assert log.begin_swap([0], generation=job.generation) is None
    assert pairs(log) == [(0, b"a", b"1"), (1, b"b", b"1")]


@pytest.mark.parametrize("retired", [False, True])
def test_a_truncation_in_the_middle_of_a_swap(log: Log, retired: bool) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    sealed(log)
    put(log, (b"a", b"3"))
    job = make_job(log, filth(log, now_ms=NOW_MS), Resources(), now_ms=NOW_MS)
    cleaned: list[Cleaned] = []

    def hand_over(each: Cleaned) -> bool:
        cleaned.append(each)
        return False

    assert clean(job, hand_over) is None
    begun = log.begin_swap(cleaned[0].bases, generation=job.generation)
    assert begun is not None
    if retired:
        log.retire_swapped(begun)
    log.truncate_to(2, now_ms=NOW_MS)
    assert log.finish_swap(begun, now_ms=NOW_MS) is retired
    assert pairs(log) == ([(1, b"a", b"2")] if retired else [(0, b"a", b"1"), (1, b"a", b"2")])
    names = {path.name for path in log.directory.iterdir()}
    assert not [name for name in names if name.endswith((".swap", ".cleaned"))]


def test_a_truncation_makes_dirty_what_comes_in_the_place_of_what_was_clean(directory: LogDirectory, log: Log) -> None:
    for number in range(4):
        put(log, (b"a", b"%d" % number))
    sealed(log)
    clean_log(log, now_ms=NOW_MS)
    directory.checkpoint_cleaned()
    assert log.cleaned_to == 4
    log.truncate_to(2, now_ms=NOW_MS)
    on_disk = (directory.path / "cleaner-offset-checkpoint").read_text()
    assert log.cleaned_to is not None
    assert on_disk == f"0\n1\nt 0 {log.cleaned_to}\n"
    assert log.cleaned_to <= 2


def test_which_logs_are_filthy(directory: LogDirectory) -> None:
    logs = [
        directory.create(TopicPartition("f", number), COMPACTED, topic_id=None, now_ms=NOW_MS) for number in range(3)
    ]
    for number, each in enumerate(logs):
        put(each, (b"a", b"1" * 300))
        sealed(each)
        if number:
            clean_log(each, now_ms=NOW_MS)
            put(each, (b"b", b"1" * (10 if number == 1 else 200)))
            sealed(each)
    ratios = [filth(each, now_ms=NOW_MS).ratio for each in logs]
    assert ratios[0] == 1
    assert 0 < ratios[1] < ratios[2] < 0.5
    found = filthiest(logs, now_ms=NOW_MS)
    assert found is not None
    assert found[0] is logs[0]
    assert filthiest(logs[1:], now_ms=NOW_MS) is None
    logs[2].configure(replace(COMPACTED, min_cleanable_dirty_ratio=0.3))
    found = filthiest(logs[1:], now_ms=NOW_MS)
    assert found is not None
    assert found[0] is logs[2]
    logs[1].configure(replace(COMPACTED, max_compaction_lag_ms=1000))
    assert not needs_cleaning(logs[1], filth(logs[1], now_ms=NOW_MS + 1000))
    assert needs_cleaning(logs[1], filth(logs[1], now_ms=NOW_MS + 1001))


def test_what_is_younger_than_the_minimum_lag_is_left_alone(log: Log) -> None:
    put(log, (b"a", b"1"), at_ms=NOW_MS)
    sealed(log)
    put(log, (b"a", b"2"), at_ms=NOW_MS + 10)
    sealed(log)
    log.configure(replace(COMPACTED, min_compaction_lag_ms=100))
    assert filth(log, now_ms=NOW_MS + 99).first_uncleanable_offset == 0
    assert filth(log, now_ms=NOW_MS + 105).first_uncleanable_offset == 1
    assert filth(log, now_ms=NOW_MS + 110).first_uncleanable_offset == 2


def test_a_compacted_segment_is_rolled_before_its_records_are_overdue(log: Log) -> None:
    log.configure(replace(COMPACTED, max_compaction_lag_ms=50))
    put(log, (b"a", b"1"), at_ms=NOW_MS)
    put(log, (b"a", b"2"), at_ms=NOW_MS + 51)
    assert len(log.segments) == 2


def test_damage_is_told_and_nothing_is_replaced(log: Log) -> None:
    for number in range(4):
        put(log, (b"a", b"%d" % number))
    sealed(log)
    log.flush(now_ms=NOW_MS)
    file = log.segments[0].file.path
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptionError):
        clean_log(log, now_ms=NOW_MS)
    assert file.read_bytes() == data
    assert log.segments[0].base_offset == 0


def test_segments_are_grouped_by_size_index_and_offsets() -> None:
    def extent(base: int, size: int = 10, index: int = 1) -> Extent:
        return Extent(base, base + 10, size, index, index)

    rows = [extent(base) for base in range(0, 50, 10)]
    by_size = group_segments(rows, segment_bytes=20, index_bytes=100)
    assert [[each.base_offset for each in group] for group in by_size] == [[0, 10], [20, 30], [40]]
    by_index = group_segments(rows, segment_bytes=1000, index_bytes=3)
    assert [len(group) for group in by_index] == [3, 2]
    apart = [extent(0), extent(1 << 31), Extent((1 << 31) + 10, 1 << 40, 0, 0, 0)]
    assert [len(group) for group in group_segments(apart, segment_bytes=1000, index_bytes=100)] == [1, 2]


def test_the_map_knows_the_last_offset_of_every_key_up_to_its_last_slot() -> None:
    offsets = OffsetMap(100 * SLOT_BYTES, 1.0, 1000)
    assert offsets.entries_max == 99
    for number in range(99):
        assert offsets.has_room(1000 + number)
        offsets.put(b"%d" % number, 1000 + number)
    assert not offsets.has_room(1099)
    offsets.put(b"5", 2000)
    assert offsets.entries == 99
    assert [offsets.get(b"%d" % number) for number in (4, 5, 6)] == [1004, 2000, 1006]
    assert offsets.get(b"none") == -1
    assert offsets.get(b"") == -1


@pytest.mark.parametrize("by", [0, 1, -1, 63, -64, 64, 1 << 40, -(1 << 40), (1 << 62), -(1 << 62)])
def test_timestamps_are_shifted(by: int) -> None:
    made = [Record(b"k", None, NOW_MS), Record(None, b"v" * 200, NOW_MS + 500, ((b"h", b"x"),))]
    data = build_batch(made)
    moved = shifted(data[61:], by)
    found = list(read_batch(data[:61] + moved)) if len(moved) == len(data) - 61 else None
    expected = shifted(moved, -by)
    assert expected == data[61:]
    if found is not None:
        assert [record.timestamp for record in found] == [NOW_MS + by, NOW_MS + 500 + by]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_are_cleaned_one_by_one(tmp_path: Path, magic: int, codec: Codec) -> None:
    (tmp_path / "t-0").mkdir(parents=True)
    runs = [old_run(magic, codec, first=first, count=4, timestamp=NOW_MS + first, key=b"k%d") for first in (0, 4)]
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"".join(runs))
    directory = LogDirectory(tmp_path)
    directory.load(lambda _: COMPACTED, now_ms=NOW_MS)
    log = directory.logs[TP]
    before = [record for run in runs for record in stored_messages(run)]
    replaced = (before[1].key, before[6].key)
    put(log, *((key, b"new") for key in replaced))
    clean_log(sealed(log), now_ms=NOW_MS)
    data = log.segments[0].file.path.read_bytes()
    found = stored_messages(data)
    assert found[:-2] == [record for record in before if record.key not in replaced]
    assert [record.offset for record in found[-2:]] == [8, 9]
    directory.abandon()


def stored_messages(data: bytes) -> list[Record]:
    return [record for frame in frames(data) for record in read_any(data, frame.position)]
