from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.app import app
from ottla.records.record import Record, build_batch


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A log directory with three records."""
    partition = tmp_path / "log" / "clicks-0"
    partition.mkdir(parents=True)
    records = [Record(None, b'{"ms": %d}' % number, 0) for number in range(3)]
    (partition / f"{0:020d}.log").write_bytes(build_batch(records))
    (tmp_path / "log" / "replication-offset-checkpoint").write_text("0\n1\nclicks 0 3\n")
    return tmp_path / "log"


def run(files: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["sql", "--log-dir", str(files), *arguments])


def test_an_answer_takes_the_place_of_the_one_before_when_it_is_there(files: Path, tmp_path: Path) -> None:
    kept = tmp_path / "answer.csv"
    kept.write_text("before\n")
    refused = run(files, "select nothing from clicks", "-f", "csv", "-o", str(kept))
    assert refused.exit_code != 0
    assert kept.read_text() == "before\n"
    broken = run(files, "select case when ms = 2 then error('no') end from clicks", "-f", "csv", "-o", str(kept))
    assert broken.exit_code != 0
    assert kept.read_text() == "before\n"
    assert run(files, "select ms from clicks where ms < 2", "-f", "csv", "-o", str(kept)).exit_code == 0
    assert kept.read_text() == "ms\n0\n1\n"
    assert sorted(tmp_path.iterdir()) == [kept, files]


def test_a_file_that_cannot_be_written_is_told_by_its_name(files: Path, tmp_path: Path) -> None:
    refused = run(files, "select ms from clicks", "-o", str(tmp_path / "nowhere" / "answer"))
    assert (refused.exit_code, refused.exception.__class__) == (1, SystemExit)
    assert "nowhere/answer: No such file or directory" in refused.stderr
