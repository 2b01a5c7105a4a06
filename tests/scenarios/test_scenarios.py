"""Readable traces of the quorum machines, compared line by line with what they were when somebody last read them.

A scenario is a text file: commands, a line of dashes, the trace they must leave; then the next commands. After a change
that is meant to alter traces, ``make rewrite-scenarios`` writes them anew. Review the difference.

    ensemble VOTERS [OBSERVERS]   first of all
    recent COUNT                  how many entries a leader remembers, before any start
    start ID...                   run a process on what the disk holds
    stop ID...                    power off: the process and the unsynced end of the log are gone
    wipe ID                       an empty disk
    cut ID ID                     nothing passes between the two
    mend                          end of all cuts
    slow ID / sync ID             from now on the disk syncs nothing; it catches up
    propose ID [COUNT]            ask a leader for transactions
    near-end ID                   the leader's zxid counter has room for two more transactions
    run [MS]                      deliver everything and let time pass
    promise ID EPOCH              the server, which is stopped, has promised an epoch on its own
    disks                         show what everybody has on disk
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.keeper.quorum.history import COUNTER_MAX
from tests.scenarios.stage import Stage

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))
DASHES = "----"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_leaves_the_trace_it_always_did(path: Path, request: pytest.FixtureRequest) -> None:
    acts = _read(path.read_text())
    played = _play([commands for commands, _ in acts])
    if request.config.getoption("--rewrite-scenarios", default=False):
        path.write_text(_written(played))
        return
    assert _written(played) == _written(acts)


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 10


def _read(text: str) -> list[tuple[list[str], list[str]]]:
    """Acts: some commands, and the trace they leave."""
    acts: list[tuple[list[str], list[str]]] = []
    for block in text.rstrip().split("\n\n"):
        commands, _, trace = block.partition(f"\n{DASHES}\n")
        acts.append((commands.splitlines(), trace.splitlines()))
    return acts


def _written(acts: list[tuple[list[str], list[str]]]) -> str:
    return "\n\n".join("\n".join([*commands, DASHES, *trace]) for commands, trace in acts) + "\n"


def _play(acts: list[list[str]]) -> list[tuple[list[str], list[str]]]:
    script, played = Script(), []
    for commands in acts:
        for command in commands:
            if not command.startswith("#"):
                script.play(*command.split())
        played.append((commands, script.take_trace()))
    return played


class Script:
    def __init__(self) -> None:
        self._stage = Stage(0)
        self._size = (0, 0)

    def take_trace(self) -> list[str]:
        trace, self._stage.trace = self._stage.trace, []
        return trace

    def play(self, name: str, *args: str) -> None:
        getattr(self, f"_{name.replace('-', '_')}")(*map(int, args))

    def _ensemble(self, voters: int, observers: int = 0) -> None:
        self._size = voters, observers
        self._stage = Stage(voters, observers)

    def _recent(self, count: int) -> None:
        self._stage = Stage(*self._size, recent_max=count)

    def _start(self, *ids: int) -> None:
        for i in ids:
            self._stage.start(i)

    def _stop(self, *ids: int) -> None:
        for i in ids:
            self._stage.stop(i)

    def _wipe(self, server_id: int) -> None:
        self._stage.wipe(server_id)

    def _cut(self, one: int, other: int) -> None:
        self._stage.cut(one, other)

    def _mend(self) -> None:
        self._stage.mend()

    def _slow(self, server_id: int) -> None:
        self._stage.actors[server_id].disk.is_slow = True

    def _sync(self, server_id: int) -> None:
        self._stage.sync(server_id)

    def _propose(self, server_id: int, count: int = 1) -> None:
        self._stage.propose(server_id, count)

    def _near_end(self, server_id: int) -> None:
        """As if the epoch had seen four thousand million transactions: the whole ensemble agrees on one more."""
        leading = self._stage.actors[server_id].leading
        end = leading.epoch << 32 | COUNTER_MAX - 2
        leading._last_proposed = end
        for actor in self._stage.actors.values():
            actor.disk.base, actor.disk.log = end, []
            if actor.peer is not None:
                actor.peer.recent.reset(end)
                actor.peer.durable.synced_zxid = end
        self._stage.say(f"everybody has {end >> 32}:{end & COUNTER_MAX:x}")

    def _promise(self, server_id: int, epoch: int) -> None:
        """As a candidate does whose learners were lost, each time, before they heard of the epoch."""
        self._stage.actors[server_id].disk.accepted_epoch = epoch

    def _run(self, duration_ms: int = 0) -> None:
        self._stage.run(duration_ms)

    def _disks(self) -> None:
        for i, actor in self._stage.actors.items():
            self._stage.say(f"{i}: {actor.disk}")
