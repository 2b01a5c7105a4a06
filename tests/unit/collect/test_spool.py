from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.collect.batches import Batch, Record, decode, encode, positions_of
from ottla.collect.spool import Reader, Spool, SpoolError

MIB = 1 << 20
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=3).map(tuple)
RECORDS = st.lists(st.builds(Record, st.binary(max_size=9), st.none() | st.binary(max_size=4), HEADERS), max_size=4)
BATCHES = st.builds(
    Batch, st.text(max_size=9), st.integers(0, 2**48), HEADERS, RECORDS, st.just({"1:2": {"offset": 3}, "1:3": None})
)


@given(BATCHES)
def test_a_batch_comes_back_as_it_was(batch: Batch) -> None:
    assert decode(encode(batch)) == batch
    assert positions_of(encode(batch)) == batch.positions


@given(st.data())
def test_a_batch_that_is_cut_is_told(data: st.DataObject) -> None:
    batch = Batch("t", 1, (), [Record(b"value", b"key", (("h", b"v"),))])
    encoded = encode(batch)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with suppress(CorruptionError):
        assert decode(encoded[:cut]).records == []


def contents(spool: Spool) -> list[bytes]:
    return [batch for _, batch in Reader(spool, spool.committed)]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Whatever a test has opened is let go of at its end."""
    yield
    while OPENED:
        abandon(OPENED[-1])


OPENED: list[Spool] = []


def opened(folder: Path, limit: int = MIB) -> Spool:
    OPENED.append(Spool(folder, limit_bytes=limit))
    return OPENED[-1]


def abandon(spool: Spool) -> None:
    """What kill -9 does to it: nothing is done in order."""
    OPENED.remove(spool)
    spool._lock.close()
    for file in (spool._file, *spool._retired):
        os.close(file)


def reopened(spool: Spool, limit: int = MIB) -> Spool:
    abandon(spool)
    return opened(spool.folder, limit)


def a_batch(number: int, size: int = 10) -> bytes:
    return encode(Batch("t", number, (), [Record(b"x" * size)], {"f": {"offset": number}}))


def test_what_was_taken_is_there_after_a_kill_in_its_order_with_its_positions(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    batches = [a_batch(number) for number in range(10)]
    assert [spool.append(batch) for batch in batches] == list(range(10))
    spool = reopened(spool)
    assert contents(spool) == batches
    assert spool.positions() == {"f": {"offset": 9}}
    spool.commit(4, positions_of(batches[3]))
    spool.checkpoint()
    spool = reopened(spool)
    assert contents(spool) == batches[4:]
    assert spool.append(b"more") == 10


def test_a_full_spool_takes_nothing_until_something_is_done_and_throws_nothing_out(tmp_path: Path) -> None:
    spool = opened(tmp_path, 20_000)
    taken: list[int] = []
    while (number := spool.append(a_batch(len(taken), 1000))) is not None:
        taken.append(number)
    assert len(taken) > 10
    assert sum(path.stat().st_size for path in tmp_path.glob("*.spool")) <= 20_000
    assert contents(spool) == [a_batch(number, 1000) for number in taken]
    spool.commit(5, {})
    assert spool.checkpoint()
    assert spool.append(a_batch(len(taken), 1000)) == len(taken)
    assert contents(spool) == [a_batch(number, 1000) for number in range(5, len(taken) + 1)]


def test_a_batch_above_the_limit_is_taken_alone_and_room_comes_back(tmp_path: Path) -> None:
    spool = opened(tmp_path, 1000)
    for number in range(3):
        assert spool.append(b"x" * 5000) == number
        assert spool.append(b"y") is None
        spool.commit(number + 1, {})
        spool.checkpoint()
        assert spool.used == 0
    assert len(list(tmp_path.glob("*.spool"))) == 1


@given(cut=st.integers(1, 200), zeros=st.booleans())
def test_a_torn_tail_is_cut_and_kept(tmp_path_factory: pytest.TempPathFactory, cut: int, *, zeros: bool) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = opened(folder)
    batches = [a_batch(number) for number in range(3)]
    for batch in batches:
        spool.append(batch)
    [file] = folder.glob("*.spool")
    size = file.stat().st_size
    frame = size // 3
    os.truncate(file, size - cut)
    if zeros:
        os.truncate(file, size)
    spool = reopened(spool)
    left = 3 - (cut + frame - 1) // frame
    assert contents(spool) == batches[:left]
    assert spool.positions() == {"f": {"offset": left - 1}}
    assert list(folder.glob("*.torn")) or size - cut == left * frame
    assert spool.append(b"more") == left
    assert contents(reopened(spool)) == [*batches[:left], b"more"]


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_damage_that_no_crash_explains_is_refused(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(3):
        spool.append(a_batch(number))
    [file] = tmp_path.glob("*.spool")
    flip(file, 30)
    with pytest.raises(CorruptionError, match="damaged at byte 0"):
        reopened(spool)


def test_a_damaged_segment_is_named_and_can_be_taken_away(tmp_path: Path) -> None:
    spool = opened(tmp_path, 8000)
    for number in range(8):
        spool.append(a_batch(number, 600))
    files = sorted(tmp_path.glob("*.spool"))
    assert len(files) == 8
    flip(files[3], 30)
    spool = reopened(spool, 8000)
    with pytest.raises(CorruptionError, match=f"{files[3].name} is damaged"):
        contents(spool)
    files[3].unlink()
    spool = reopened(spool, 8000)
    assert contents(spool) == [a_batch(number, 600) for number in range(8) if number != 3]


def test_a_folder_has_one_collector(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="another collector"):
        (opened(tmp_path), opened(tmp_path))


def short(file: int, data: bytes, at: int) -> int:
    return real_pwrite(file, data[:-7], at)


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


real_pwrite = os.pwrite


@pytest.mark.parametrize("pwrite", [short, full])
def test_a_full_disk_is_a_full_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pwrite: Callable[[int, bytes, int], int]
) -> None:
    spool = opened(tmp_path)
    spool.append(a_batch(0))
    monkeypatch.setattr(os, "pwrite", pwrite)
    assert spool.append(a_batch(1, 1000)) is None
    monkeypatch.undo()
    assert spool.append(a_batch(1)) == 1
    assert contents(reopened(spool)) == [a_batch(0), a_batch(1)]
    assert not list(tmp_path.glob("*.torn"))


def test_a_disk_without_room_for_one_more_file_is_a_full_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = opened(tmp_path, 8000)
    spool.append(a_batch(0, 600))
    monkeypatch.setattr(os, "open", full)
    assert spool.append(a_batch(1, 600)) is None
    monkeypatch.undo()
    assert spool.append(a_batch(1, 600)) == 1
    assert contents(reopened(spool, 8000)) == [a_batch(0, 600), a_batch(1, 600)]


def test_what_is_synced_is_known(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(a_batch(0))
    assert spool.synced == 0
    spool.sync()
    assert spool.synced == 1
