"""Curator 5.9, the recipes most Java programs use, on three servers whose leader is killed with -9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.recipes import SESSIONS, leadership_lives_through_a_killed_leader, lock_lives_through_a_killed_leader
from tests.peers import Ensemble, OttlaKeepers
from tests.peers.builds import java_classes
from tests.peers.conversation import Conversation

SOURCE = Path(__file__).parent / "java" / "Recipes.java"


@pytest.fixture
def keepers(tmp_path: Path) -> Iterator[Ensemble]:
    with OttlaKeepers(3, tmp_path, settings=SESSIONS) as ensemble:
        yield ensemble


@pytest.fixture
def curator(keepers: Ensemble, tmp_path: Path) -> Iterator[Conversation]:
    path = java_classes(SOURCE, "curator-5.9.0")
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    with Conversation(["java", *quick, "-cp", path, "Recipes", keepers.hosts], log=tmp_path / "curator.log") as program:
        program.hear("ready", timeout_s=120)
        yield program


def test_a_lock_is_held_through_a_killed_leader(keepers: Ensemble, curator: Conversation) -> None:
    lock_lives_through_a_killed_leader(keepers, curator, lost="LOST")


def test_a_leader_latch_lives_through_a_killed_leader(keepers: Ensemble, curator: Conversation) -> None:
    leadership_lives_through_a_killed_leader(keepers, curator)
