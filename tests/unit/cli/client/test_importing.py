"""What files hold, as records; and how far it is, as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.client.importing import ImportFailedError, Reading, State, records


def test_how_far_it_is_is_read_again(tmp_path: Path) -> None:
    State(tmp_path / "state").note(tmp_path / "a.csv", 7)
    assert State(tmp_path / "state").rows(tmp_path / "a.csv") == 7


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
