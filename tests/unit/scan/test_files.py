"""Records counted by the headers of their batches alone, held against what reading them all gives."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from ottla.records.codecs import Codec
from ottla.records.errors import RecordsError
from ottla.records.record import Record, build_batch
from ottla.scan.cluster import TopicPartition
from ottla.scan.columns import Filter
from ottla.scan.decoding import Run
from ottla.scan.fetching import Range
from ottla.scan.files import LogFiles
from ottla.scan.localreading import read_files

PLACE = TopicPartition("clicks", 0)


def write_log(folder: Path, bounds: list[int], controls: frozenset[int] = frozenset()) -> None:
    """Batches that begin at these offsets, three to a segment, with indexes; the last bound is the high watermark."""
    directory = folder / str(PLACE)
    directory.mkdir(parents=True)
    for number, (start, end) in enumerate(pairwise(bounds)):
        segment = directory / f"{bounds[number - number % 3]:020d}.log"
        records = [Record(None, b"x" * 2000, offset) for offset in range(start, end)]
        codec = Codec.LZ4 if number % 2 else Codec.NONE
        batch = build_batch(records, base_offset=start, codec=codec, is_control=number in controls)
        with segment.open("ab") as file:
            position = file.tell()
            file.write(batch)
        index = segment.with_suffix(".index")
        entries = index.read_bytes().rstrip(b"\0") if index.exists() else b""
        if number % 3:
            entries = entries.ljust(8 * (number % 3 - 1), b"\0") + struct.pack(
                ">ii", end - 1 - int(segment.stem), position
            )
        index.write_bytes(entries + bytes(800 - len(entries)))
    (folder / "replication-offset-checkpoint").write_text(f"0\n1\n{PLACE.topic} 0 {bounds[-1]}\n")


def offsets(files: LogFiles, wanted: Range, passing: Filter) -> list[int]:
    """Which are read, as the whole record is asked for."""
    found = read_files(files, [wanted], frozenset(("offset", "partition")), passing)
    return [offset for one in found for offset in one.arrays["offset"].to_pylist()]


def counted(files: LogFiles, wanted: Range, passing: Filter) -> int:
    found = list(read_files(files, [wanted], frozenset(("partition",)), passing))
    assert all(one.arrays["partition"].to_pylist() == [0] * one.rows for one in found)
    return sum(one.rows for one in found)


@pytest.mark.parametrize("seed", range(5))
def test_as_many_records_are_counted_as_are_read(tmp_path: Path, seed: int) -> None:
    seeded = random.Random(seed)
    bounds = [0]
    for _ in range(10):
        bounds.append(bounds[-1] + seeded.randrange(1, 9))
    write_log(tmp_path, bounds, frozenset((4,)))
    files = LogFiles([tmp_path])
    for _ in range(40):
        low, high = sorted(seeded.sample(range(bounds[-1] + 1), 2))
        passing = Filter(first_offset=seeded.choice((0, low + 1)), end_offset=seeded.choice((high, high + 5)))
        wanted = Range(PLACE, low, high)
        assert counted(files, wanted, passing) == len(offsets(files, wanted, passing)), (wanted, passing)


def test_bodies_are_not_read_where_headers_tell(tmp_path: Path) -> None:
    write_log(tmp_path, [0, 10, 20, 30, 40])
    log = LogFiles([tmp_path]).log(PLACE)
    looked_into = [one for one in log.counted(5, 35) if isinstance(one, Run)]
    assert len(looked_into) == 2
    assert sum(one.records for one in log.counted(0, 40) if not isinstance(one, Run)) == 40


def test_damage_is_told_of_where_records_are_counted_too(tmp_path: Path) -> None:
    write_log(tmp_path, [0, 2, 4, 6])
    [path] = (tmp_path / str(PLACE)).glob("*.log")
    whole = path.read_bytes()
    first = 12 + int.from_bytes(whole[8:12], "big")
    path.write_bytes(whole[: first + 8] + bytes(4) + whole[first + 12 :])
    with pytest.raises(RecordsError, match="no batch is as small"):
        counted(LogFiles([tmp_path]), Range(PLACE, 0, 6), Filter())
