"""What goes wrong, drawn at random: one thing after another, some at a time, with quiet in between."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ottla.keeper.quorum.messages import Role
from tests.sim.loop import MS

if TYPE_CHECKING:
    from tests.sim.server import Server
    from tests.sim.world import World


class Faults:
    """Strikes until ``stop``, which also repairs everything."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._net = world.net
        self._loop = world.loop
        self._hit = world.coverage.hit
        self._rng = rng
        self._active = True
        self._episode = 0

    def start(self) -> None:
        self._loop.after(self._rng.randint(0, 1500) * MS, self._strike)

    def _strike(self) -> None:
        if not self._active:
            return
        rng, interval_ms = self._rng, self._world.profile.fault_ms
        if rng.random() < 0.75:
            kind = rng.choices(_KINDS, _WEIGHTS)[0]
            getattr(self, f"_{kind}")()
        else:
            interval_ms *= 2
        self._loop.after(rng.randint(interval_ms // 4, interval_ms * 2) * MS, self._strike)

    def stop(self) -> None:
        self._active = False
        self._net.heal()
        for server in self._world.servers:
            server.disk.slow = 1
            server.disk.crash_in = None
            server.resume(server.incarnation)
            if not server.is_running:
                server.start()

    # Machines.

    def _victim(self) -> Server:
        """Any server that runs, the leader more often than others."""
        running = [s for s in self._world.servers if s.is_running]
        leaders = [s for s in running if s.member.role.role is Role.LEADING]
        if leaders and self._rng.random() < 0.4:
            return self._rng.choice(leaders)
        return self._rng.choice(running or self._world.servers)

    def _crash(self) -> None:
        server = self._victim()
        server.stop(power_cut=self._rng.random() < 0.6)
        self.revive(server)

    def _crash_inside(self) -> None:
        self._victim().disk.crash_in = self._rng.randint(1, 10)

    def _crash_all(self) -> None:
        power_cut = self._rng.random() < 0.8
        for server in self._world.servers:
            server.stop(power_cut=power_cut)
            self.revive(server)
        if power_cut:
            self._hit("all servers lost power at once")

    def revive(self, server: Server) -> None:
        """Start it again after a while."""
        rng = self._rng
        delay_ms = rng.choice((rng.randint(1, 20), rng.randint(20, 300), rng.randint(300, 4000)))
        self._loop.after(delay_ms * MS, self._revive, server, server.incarnation)

    def _revive(self, server: Server, incarnation: int) -> None:
        if not server.is_running and server.incarnation == incarnation:
            server.start()

    def _wipe(self) -> None:
        """A lost disk. As many blank voters as would make a quorum by themselves are more than can be survived."""
        server, voters = self._victim(), [s for s in self._world.servers if s.is_voter]
        blank = sum(s.disk.is_blank for s in voters if s is not server) + server.is_voter
        if 2 * blank >= len(voters):
            return
        server.stop(power_cut=True)
        server.disk.wipe()
        self._world.note("wiped", server.server_id)
        self.revive(server)

    def _amnesia(self) -> None:
        """Of those who know the most, one loses its disk and another the connection: who is left knows less."""
        self._wipe()
        knowing = max(self._world.servers, key=lambda server: server.disk.last_zxid)
        self._cut_off(knowing.server_id)

    def _pause(self) -> None:
        self._victim().pause(self._rng.choice((self._rng.randint(20, 400), self._rng.randint(400, 4000))) * MS)

    def _slow_disk(self) -> None:
        for server in self._rng.sample(self._world.servers, self._rng.randint(1, len(self._world.servers))):
            server.disk.slow = self._rng.choice((20, 100, 400))
            self._later(self._fast_disk, server)

    def _fast_disk(self, server: Server) -> None:
        server.disk.slow = 1

    def _wall_clock(self) -> None:
        self._victim().clock.jump_wall(self._rng.choice((-1, 1)) * self._rng.choice((1000, 60_000, 3_600_000)))
        self._hit("wall clock jumped")

    # The network.

    def _later(self, repair: object, *args: object) -> None:
        assert callable(repair)
        self._loop.after(
            self._rng.choice((self._rng.randint(50, 800), self._rng.randint(800, 5000))) * MS, repair, *args
        )

    def _ids(self) -> list[int]:
        ids = [server.server_id for server in self._world.servers]
        self._rng.shuffle(ids)
        return ids

    def _cut(self, pairs: list[tuple[int, int]]) -> None:
        self._net.cuts.update(pairs)
        self._episode += 1
        self._world.note("cut", *(10 * a + b for a, b in pairs))
        self._later(self._mend, self._episode)

    def _mend(self, episode: int) -> None:
        if episode == self._episode:
            self._world.note("mended")
            self._net.heal()

    def _isolate(self) -> None:
        self._cut_off(self._victim().server_id)

    def _cut_off(self, lonely: int) -> None:
        self._cut(_between([lonely], [other for other in self._ids() if other != lonely]))

    def _halves(self) -> None:
        ids = self._ids()
        middle = len(ids) // 2
        self._cut(_between(ids[:middle], ids[middle:]))
        self._hit("partition into halves")

    def _bridge(self) -> None:
        """Two halves that only one server reaches both of."""
        first, *ids = self._ids()
        middle = len(ids) // 2
        self._world.note("bridge", first)
        self._cut(_between(ids[:middle], ids[middle:]))

    def _ring(self) -> None:
        """Everybody reaches two neighbours only."""
        ids = self._ids()
        count = len(ids)
        apart = [(i, j) for i in range(count) for j in range(count) if (i - j) % count not in (0, 1, count - 1)]
        self._cut([(ids[i], ids[j]) for i, j in apart])

    def _one_way(self) -> None:
        mute = self._victim().server_id
        others = [other for other in self._ids() if other != mute]
        self._cut([(mute, other) if self._rng.random() < 0.5 else (other, mute) for other in others])
        self._hit("one-way cut")

    def _slow_link(self) -> None:
        ids = self._ids()
        self._net.slow[ids[0], ids[1]] = self._rng.choice((5, 30, 100))
        self._later(self._net.slow.pop, (ids[0], ids[1]), None)

    def _reset(self) -> None:
        live = [end for end in self._net.ends if end.is_live]
        if live:
            self._net.reset(self._rng.choice(live))
            self._hit("link reset")

    def _flaky(self) -> None:
        """For a while, links break all the time."""
        self._net.flaky = self._rng.choice((0.02, 0.1, 0.3))
        self._later(self._not_flaky)

    def _not_flaky(self) -> None:
        self._net.flaky = 0.0

    # Clients.

    def _client_break(self) -> None:
        self._rng.choice(self._world.clients).break_off()

    def _client_freeze(self) -> None:
        self._rng.choice(self._world.clients).freeze(self._rng.randint(500, 5000) * MS)


def _between(some: list[int], others: list[int]) -> list[tuple[int, int]]:
    return [pair for a in some for b in others for pair in ((a, b), (b, a))]


_WEIGHED = {
    "crash": 12,
    "crash_inside": 10,
    "crash_all": 5,
    "wipe": 3,
    "amnesia": 6,
    "pause": 8,
    "slow_disk": 6,
    "wall_clock": 6,
    "isolate": 10,
    "halves": 5,
    "bridge": 3,
    "ring": 2,
    "one_way": 5,
    "slow_link": 8,
    "reset": 6,
    "flaky": 6,
    "client_break": 8,
    "client_freeze": 5,
}
_KINDS, _WEIGHTS = list(_WEIGHED), list(_WEIGHED.values())
