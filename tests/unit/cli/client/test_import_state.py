"""What files hold, as records; and how far it is, as a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.cli.client.importing import ImportFailedError, Reading, State, records


def test_an_import_goes_on_behind_the_rows_that_were_sent(tmp_path: Path) -> None:
    file, kept = tmp_path / "users.csv", tmp_path / "state"
    file.write_text("id\n1\n2\n")
    assert State(kept).rows(file) == 0
    State(kept).note(file, 2)
    assert State(kept).rows(file) == 2


@pytest.mark.parametrize("text", ["id\n3\n4\n5\n", "id\n3\n4\n"])
def test_a_file_that_was_written_anew_loses_no_rows_for_those_sent_of_the_old_one(tmp_path: Path, text: str) -> None:
    file, kept = tmp_path / "users.csv", tmp_path / "state"
    file.write_text("id\n1\n2\n")
    State(kept).note(file, 2)
    file.write_text(text)
    os.utime(file, ns=(1, 1))
    with pytest.raises(ImportFailedError, match=r"changed since 2 rows of it were sent: remove .*state"):
        State(kept).rows(file)


def test_a_state_that_cannot_be_kept_is_known_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        State(tmp_path / "nowhere" / "state").save()


def test_a_state_that_is_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no json")
    with pytest.raises(ImportFailedError, match="state: is not what ottla import wrote"):
        State(tmp_path / "state")


@pytest.mark.parametrize(("form", "text"), [("csv", "id,name\n1,ann\n"), ("jsonl", '{"id": 1, "name": "ann"}\n')])
def test_a_key_that_is_no_column_is_named_with_the_file(tmp_path: Path, form: str, text: str) -> None:
    (tmp_path / "users").write_text(text)
    with pytest.raises(ImportFailedError, match=r"users: .*there is no column nocol for the key, but id, name"):
        list(records(tmp_path / "users", form, Reading("t", key="nocol")))
