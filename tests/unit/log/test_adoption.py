"""What is found in the log directory of a stopped broker."""

from __future__ import annotations

import shutil
from pathlib import Path

from ottla.log.adoption import survey

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-log-dir"


def test_a_partition_without_a_segment_is_told_of(tmp_path: Path) -> None:
    data = Path(shutil.copytree(GOLDEN, tmp_path / "data"))
    assert survey([data]).emptied == []
    whole = survey([data]).topics
    for each in ("g-none-0", "g-gzip-0"):
        for segment in (data / each).glob("*.log"):
            segment.unlink()
    (data / "nothing-0").mkdir()
    (data / "notes-0").mkdir()
    (data / "notes-0" / "notes.txt").touch()
    found = survey([data])
    assert found.emptied == [data / "g-gzip-0", data / "g-none-0"]
    assert whole.keys() - found.topics.keys() == {"g-gzip", "g-none"}
    assert found.passed_over == []
