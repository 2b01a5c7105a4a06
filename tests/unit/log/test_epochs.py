"""Which epochs are known, and which of them are written down."""

from __future__ import annotations

from pathlib import Path

from ottla.log.epochs import LeaderEpochCache


def test_an_epoch_without_records_is_known_and_costs_no_write(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochCache(path)
    cache.assign(1, 0)
    before = path.read_bytes()
    cache.assign(2, 10, written=False)
    assert (cache.latest, cache.is_ahead, path.read_bytes()) == (2, True, before)
    assert cache.end_offset_for(1, 12) == (1, 10)
    cache.write()
    assert LeaderEpochCache(path).entries == cache.entries
    assert not cache.is_ahead


def test_a_cut_writes_what_is_left_and_nothing_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochCache(path)
    cache.assign(1, 0)
    cache.assign(2, 10, written=False)
    before = path.read_bytes()
    cache.truncate_from_end(11)
    assert (cache.latest, path.read_bytes()) == (2, before)
    cache.assign(3, 20, written=False)
    cache.truncate_from_end(15)
    assert LeaderEpochCache(path).entries == cache.entries == ((1, 0), (2, 10))
