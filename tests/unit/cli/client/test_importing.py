"""What files hold, as records; and how far it is, as a file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from ottla.cli.client.importing import ImportFailedError, Reading, Sent, State, records

READING = Reading("t")


def send(file: Path, kept: Path, *, rows: int | None = None, topic_id: str | None = None) -> list[bytes | None]:
    """As ``ottla import`` does: what would be sent, ``rows`` at most, and noted."""
    state, sent = State(kept, topic_id), Sent()
    found = list(islice(records(file, "csv", READING, sent=sent, noted=state.of(file)), rows))
    sent.add(found)
    state.note(file, sent)
    return [record.value for record in found]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of four rows."""
    file = tmp_path / "users.csv"
    file.write_text("id\n1\n2\n3\n4\n")
    return file


def test_an_import_goes_on_behind_the_rows_that_were_sent(file: Path, tmp_path: Path) -> None:
    assert send(file, tmp_path / "state", rows=2) == [b'{"id":1}', b'{"id":2}']
    assert send(file, tmp_path / "state", rows=1) == [b'{"id":3}']
    assert send(file, tmp_path / "state") == [b'{"id":4}']
    assert send(file, tmp_path / "state") == []


def test_a_file_that_was_mended_behind_what_was_sent_of_it_goes_on(file: Path, tmp_path: Path) -> None:
    send(file, tmp_path / "state", rows=2)
    file.write_text("id\n1\n2\n30\n4\n5\n")
    assert send(file, tmp_path / "state") == [b'{"id":30}', b'{"id":4}', b'{"id":5}']


@pytest.mark.parametrize("text", ["id\n3\n4\n5\n", "id\n2\n1\n3\n4\n", "id\n1\n"])
def test_a_file_that_was_written_anew_loses_no_rows_for_those_sent_of_the_old_one(
    file: Path, tmp_path: Path, text: str
) -> None:
    send(file, tmp_path / "state", rows=2)
    file.write_text(text)
    with pytest.raises(ImportFailedError, match=r"users\.csv: the 2 rows that were sent of it are not in it any more"):
        send(file, tmp_path / "state")


def test_rows_sent_to_an_earlier_topic_of_that_name_are_not_taken_for_sent(file: Path, tmp_path: Path) -> None:
    send(file, tmp_path / "state", topic_id="a1")
    assert send(file, tmp_path / "state", topic_id="a1") == []
    with pytest.raises(ImportFailedError, match="state: is of an earlier topic of that name"):
        send(file, tmp_path / "state", topic_id="b2")


def test_a_topic_that_is_made_by_what_is_sent_is_known_the_next_time(file: Path, tmp_path: Path) -> None:
    send(file, tmp_path / "state", rows=1)
    assert len(send(file, tmp_path / "state", rows=1, topic_id="a1")) == 1
    with pytest.raises(ImportFailedError):
        send(file, tmp_path / "state", topic_id="b2")


def test_a_state_that_cannot_be_kept_is_known_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        State(tmp_path / "nowhere" / "state").save()


def test_a_state_that_is_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no json")
    with pytest.raises(ImportFailedError, match="state: is not what ottla import wrote"):
        State(tmp_path / "state")


@pytest.mark.parametrize("text", ['{"files": 1}', '{"files": {"a": 2}}', "[]"])
def test_a_state_of_another_shape_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").write_text(text)
    with pytest.raises(ImportFailedError, match="state: is not what ottla import wrote"):
        State(tmp_path / "state")


@pytest.mark.parametrize(("form", "text"), [("csv", "id,name\n1,ann\n"), ("jsonl", '{"id": 1, "name": "ann"}\n')])
def test_a_key_that_is_no_column_is_named_with_the_file(tmp_path: Path, form: str, text: str) -> None:
    (tmp_path / "users").write_text(text)
    with pytest.raises(ImportFailedError, match=r"users: .*there is no column nocol for the key, but id, name"):
        list(records(tmp_path / "users", form, Reading("t", key="nocol")))
