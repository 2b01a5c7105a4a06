from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.base.errors import ConfigError
from ottla.cli.processes import Identity, identify
from ottla.cli.state import Process, State, locked


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    state = State(tmp_path, Identity(1, 2), None, [Process("keeper", 1, Identity(3, 4), "h:1", "http://h:2/metrics")])
    state.save()
    assert State.load(tmp_path) == state
    state.supervisor = None
    state.save()
    assert State.load(tmp_path) == state


def test_nothing_saved_is_nothing_loaded(tmp_path: Path) -> None:
    assert State.load(tmp_path) is None
    assert State.load(tmp_path / "none") is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"supervisor": 1}', "nonsense"])
def test_a_foreign_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "ottla.json").write_text(text)
    with pytest.raises(ConfigError, match=r"ottla\.json: is not what ottla wrote"):
        State.load(tmp_path)


def test_forgetting_removes_only_what_is_ours(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "cluster", tmp_path / "ottla-x"
    folder.mkdir()
    temporary.mkdir()
    (folder / "keeper-1").mkdir()
    State(folder, None, temporary).save()
    State(folder, None, temporary).forget()
    assert not temporary.exists()
    assert [entry.name for entry in folder.iterdir()] == ["keeper-1"]


def test_a_folder_that_is_not_of_our_making_is_never_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "cluster").mkdir()
    State(tmp_path / "cluster", None, precious).forget()
    assert precious.exists()


def test_roles_that_share_a_process_are_one(tmp_path: Path) -> None:
    one = Identity(1, 1)
    state = State(tmp_path, None, None, [Process("broker", 1, one, "h:1"), Process("keeper", 1, one, "h:2")])
    assert state.identities() == [one]


@pytest.mark.parametrize(("dead", "lacks"), [(0, False), (1, False), (2, True), (3, True)])
def test_without_a_majority_of_its_keepers_a_cluster_lacks_a_quorum(tmp_path: Path, dead: int, lacks: bool) -> None:
    alive, gone = identify(os.getpid()), Identity(1, -1)
    keepers = [Process("keeper", each, gone if each < dead else alive, "h:1") for each in range(3)]
    assert State(tmp_path, None, None, [*keepers, Process("broker", 1, gone, "h:1")]).lacks_quorum() is lacks


def test_only_one_starts_at_a_time(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(ConfigError, match=r"another ottla command \(up or restart\)"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass
