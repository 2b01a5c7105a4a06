"""A whole run: the ensemble, its clients and its misfortunes, all out of one seed."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import NamedTuple

from ottla.keeper.member import Options, Recovered
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.server.frontend import Settings
from ottla.keeper.server.prep import Rules
from tests.sim.checks import Checks
from tests.sim.client import SimClient
from tests.sim.coverage import Coverage
from tests.sim.faults import Faults
from tests.sim.loop import MS, SECOND, Loop, Violation
from tests.sim.net import SimNet, Weather
from tests.sim.rollover import epochs_of
from tests.sim.server import Server
from tests.sim.truth import Truth

TIMING = Timing(tick_ms=400, init_ms=4000, sync_ms=1200, finalize_ms=100, resend_ms=200)
HEAL_US = 20 * SECOND
"""How long after the last fault the whole ensemble may take until every server serves again."""
NOTES_KEPT = 400


class Profile(NamedTuple):
    """What kind of run a seed gives."""

    voters: int
    observers: int
    clients: int
    weather: Weather
    recent_max: int
    snap_count: int
    epoch_length: int | None
    chaos_us: int
    fault_ms: int
    think_ms: int
    pipeline: int


def profile_of(rng: Random) -> Profile:
    rough = rng.random()
    return Profile(
        voters=rng.choice((3, 5)),
        observers=rng.choice((0, 0, 1)),
        clients=rng.randint(2, 4),
        weather=Weather(
            delay_us=rng.choice((2, 10, 60)) * MS,
            loss=0.2 * rough * rng.random(),
            doubled=0.1 * rough,
            late=0.05 * rough,
        ),
        recent_max=rng.choice((5, 30, 200)),
        snap_count=rng.choice((15, 60, 200)),
        epoch_length=rng.choice((None, rng.randint(10, 100))),
        chaos_us=rng.randint(10, 30) * SECOND,
        fault_ms=rng.choice((150, 400, 1000)),
        think_ms=rng.choice((40, 80, 200)),
        pipeline=rng.choice((0, 2, 8)),
    )


class World:
    """``run`` returns if no invariant was broken, and raises ``Violation`` otherwise."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(f"{seed}")
        self.profile = profile_of(self.rng)
        self.timing = TIMING
        self.loop = Loop()
        self.coverage = Coverage()
        self.truth = Truth()
        self.net = SimNet(self.loop, Random(f"{seed}/net"), self.profile.weather)
        count = self.profile.voters + self.profile.observers
        self.voters = frozenset(range(1, self.profile.voters + 1))
        self.observers = frozenset(range(self.profile.voters + 1, count + 1))
        self.checks = Checks(self)
        self.servers = [Server(self, i, Random(f"{seed}/server{i}")) for i in range(1, count + 1)]
        self.net.hosts.update({server.server_id: server for server in self.servers})
        self.clients = [SimClient(self, i, Random(f"{seed}/client{i}")) for i in range(1, self.profile.clients + 1)]
        self.faults = Faults(self, Random(f"{seed}/faults"))
        self.fingerprint = 0
        """Of everything that has happened, to compare two runs of one seed."""
        self.notes: deque[tuple[int, str, tuple[int, ...]]] = deque(maxlen=NOTES_KEPT)
        self._wiped: set[int] = set()

    def options(self, server_id: int) -> Options:
        tick_ms = self.timing.tick_ms
        return Options(
            members=Membership(server_id, self.voters, self.observers),
            timing=self.timing,
            settings=Settings(server_id, 2 * tick_ms, 20 * tick_ms),
            rules=Rules(extended_types=True),
            container_check_ms=1500,
        )

    # What happens, for whoever wants to know.

    def stepped(self, server_id: int) -> None:
        self.fingerprint = hash((self.fingerprint, self.loop.now_us, server_id))

    def told(self, *facts: int) -> None:
        self.fingerprint = hash((self.fingerprint, facts))

    def note(self, what: str, *facts: int) -> None:
        self.notes.append((self.loop.now_us, what, facts))

    def told_story(self) -> list[str]:
        """The notes, for people."""
        lines = [str(self.profile)]
        for time_us, what, facts in self.notes:
            shown = " ".join(f"{fact:#x}" if fact > 0xFFFF else str(fact) for fact in facts)
            lines.append(f"{time_us / SECOND:9.4f}  {what} {shown}")
        return lines

    def recover(self, server: Server) -> Recovered:
        if server.disk.is_blank and self.truth.committed:
            self._wiped.add(server.server_id)
        return server.disk.recover()

    def rejoined(self, server: Server) -> None:
        if server.server_id in self._wiped:
            self._wiped.remove(server.server_id)
            self.coverage.hit("a blank server rejoined")

    def revive(self, server: Server) -> None:
        self.faults.revive(server)

    # The run.

    def run(self) -> None:
        with epochs_of(self.profile.epoch_length):
            for server in self.servers:
                self.loop.after(self.rng.choice((0, self.rng.randint(0, 2000))) * MS, self._first_start, server)
            for client in self.clients:
                client.start()
            self.faults.start()
            self.loop.run_until(self.profile.chaos_us)
            self._heal()

    def _first_start(self, server: Server) -> None:
        if not server.is_running and server.incarnation == 0:
            server.start()

    def _heal(self) -> None:
        """No more faults: the ensemble must come back, serve, and turn out to be one."""
        self.note("healing")
        self.net.weather = self.net.weather._replace(loss=0.0, late=0.0)
        self.faults.stop()
        healed_us = self.loop.now_us
        while not self._is_whole():
            if self.loop.now_us > healed_us + HEAL_US:
                roles = {s.server_id: (s.member.role.role.name, s.member.role.serving) for s in self.servers}
                raise Violation(f"Z13: not whole {HEAL_US // SECOND} s after the last fault: {roles}")
            self.loop.run_until(self.loop.now_us + 100 * MS)
        self._serve()
        self._settle()

    def _is_whole(self) -> bool:
        roles = [server.member.role for server in self.servers]
        return all(role.serving for role in roles) and len({(role.leader, role.epoch) for role in roles}) == 1

    def _serve(self) -> None:
        """Every client gets something done."""
        for client in self.clients:
            client.answered = 0
        deadline_us = self.loop.now_us + 12 * SECOND
        while not all(client.answered for client in self.clients):
            if self.loop.now_us > deadline_us:
                stuck = [client.number for client in self.clients if not client.answered]
                raise Violation(f"Z13: the ensemble is whole, but clients {stuck} get nothing done")
            self.loop.run_until(self.loop.now_us + 100 * MS)

    def _settle(self) -> None:
        """With the clients silent, all servers end up with the same tree, the one of the model."""
        for client in self.clients:
            client.freeze(3600 * SECOND)
        deadline_us = self.loop.now_us + 5 * SECOND
        # Sessions that expire meanwhile make it a moving target.
        while {z for s in self.servers for z in (s.member.frontend.tree.last_zxid, s.disk.last_zxid)} != {
            self.truth.last_zxid
        }:
            if self.loop.now_us > deadline_us:
                ends = {s.server_id: hex(s.member.frontend.tree.last_zxid) for s in self.servers}
                raise Violation(f"Z4: servers end at {ends}, and 0x{self.truth.last_zxid:x} was committed")
            self.loop.run_until(self.loop.now_us + 20 * MS)
        for server in self.servers:
            self._compare(server)

    def _compare(self, server: Server) -> None:
        tree, model = server.member.frontend.tree, self.truth.model
        if [entry.zxid for entry in server.disk.history] != self.truth.committed:
            raise Violation(f"Z2: the disk of server {server.server_id} does not hold what was committed")
        nodes = {path: frozenset(node.children or ()) for path, node in tree.nodes.items()}
        if nodes != {path: node.children for path, node in model.now.items()}:
            raise Violation(f"Z4: server {server.server_id} ends with other znodes than the model")
        if tree.sessions != model.sessions:
            raise Violation(f"Z9: server {server.server_id} ends with other sessions than the model")
        owned = {session_id: sorted(paths) for session_id, paths in tree.ephemerals.items()}
        if owned != {s: paths for s in model.sessions if (paths := model.ephemerals_of(s))}:
            raise Violation(f"Z9: server {server.server_id} ends with other ephemerals than the model")
