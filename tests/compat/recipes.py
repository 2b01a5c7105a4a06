"""What a lock and a leader must live through, whatever language their client is written in.

The programs in ``java/`` and ``go/`` speak the same lines. They watch over themselves: "BOTH" is said whenever two of
their clients hold the lock, or lead, at one moment.
"""

from __future__ import annotations

from tests.peers import Ensemble
from tests.peers.conversation import Conversation

SOON_S = 120.0
"""Within this a client that lost its server must have gone on."""
SESSIONS = {"maxSessionTimeout": "60000"}
"""The programs ask for 40 s, more than an election takes on the slowest of machines: no session is lost to that."""


def lock_lives_through_a_killed_leader(ensemble: Ensemble, program: Conversation, *, lost: str) -> None:
    """``a`` keeps its lock while the leader dies twice, and ``b`` gets it only when ``a`` gives it back."""
    program.ask("lock a", "a locked", timeout_s=SOON_S)
    program.ask("write a", "a wrote", timeout_s=SOON_S)
    program.say("lock b")
    for _ in range(2):
        leader = ensemble.leader()
        ensemble.kill(leader)
        # Writes by the holder succeed again, and the session lives: the lock is still its own.
        program.ask("write a", "a wrote", timeout_s=SOON_S)
        ensemble.restart(leader)
        program.ask("write b2", "b2 wrote", timeout_s=SOON_S)
    assert "b locked" not in program.heard, "the lock went over while its holder lived"
    program.ask("unlock a", "a unlocked", timeout_s=SOON_S)
    program.hear("b locked", timeout_s=SOON_S)
    assert program.ask("count b2", "b2 counts", timeout_s=SOON_S) == "b2 counts 5"
    program.ask("unlock b", "b unlocked", timeout_s=SOON_S)
    _nobody_shared(program)
    assert not [line for line in program.heard if line.endswith(lost)], "a session was lost"


def leadership_lives_through_a_killed_leader(ensemble: Ensemble, program: Conversation) -> None:
    """One of three leads, before and after the ensemble's leader dies, and another once the first gives up."""
    leads = tuple(f"{name} leads" for name in "abc")
    for name in "abc":
        program.say(f"latch {name}")
    program.hear(*leads, timeout_s=SOON_S)
    leader = ensemble.leader()
    since = program.mark()
    ensemble.kill(leader)
    # The clients whose server died notice; whoever leads then can write.
    program.ask("write a", "a wrote", timeout_s=SOON_S)
    ensemble.restart(leader)
    leading = _who_leads(program.heard)
    if not leading:
        leading = program.hear(*leads, timeout_s=SOON_S, since=since).split()[0]
    since = program.mark()
    program.ask(f"unlatch {leading}", f"{leading} left", timeout_s=SOON_S)
    following = program.hear(*leads, timeout_s=SOON_S, since=since).split()[0]
    assert following != leading
    _nobody_shared(program)


def _who_leads(heard: list[str]) -> str:
    leading = ""
    for line in heard:
        name, _, what = line.partition(" ")
        if what == "leads":
            leading = name
        elif what == "follows" and name == leading:
            leading = ""
    return leading


def _nobody_shared(program: Conversation) -> None:
    assert not [line for line in program.heard if line.startswith("BOTH")], program.heard
    assert not [line for line in program.heard if " failed " in line], program.heard
