"""go-zookeeper, the client of most Go programs, on three servers whose leader is killed with -9."""

from __future__ import annotations

from pathlib import Path

from tests.compat.recipes import SESSIONS, lock_lives_through_a_killed_leader
from tests.peers import OttlaKeepers
from tests.peers.builds import go_program
from tests.peers.conversation import Conversation

MODULE = Path(__file__).parent / "go"


def test_a_lock_is_held_through_a_killed_leader(tmp_path: Path) -> None:
    program = go_program(MODULE)
    with (
        OttlaKeepers(3, tmp_path, settings=SESSIONS) as keepers,
        Conversation([program, keepers.hosts], log=tmp_path / "go.log") as client,
    ):
        client.hear("ready", timeout_s=120)
        lock_lives_through_a_killed_leader(keepers, client, lost="StateExpired")
