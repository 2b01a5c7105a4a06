"""One machine of the ensemble: a disk and clocks that last, and a process that comes and goes."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING

from ottla.keeper.member import Member, Options
from ottla.keeper.messages import Message, Revalidate, Touch
from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.effects import RoleChange
from ottla.keeper.quorum.leading import Leading
from tests.sim.clock import SimClock
from tests.sim.conn import Conn
from tests.sim.disk import CrashError, SimDisk
from tests.sim.loop import MS, Call, Violation
from tests.sim.net import Ports, Stream

if TYPE_CHECKING:
    from tests.sim.world import World

TICK_US = 50 * MS
FLUSH_US = 1 * MS


class Server:
    """``call`` is the only way into the process; after each, the invariants are checked."""

    member: Member
    ports: Ports

    def __init__(self, world: World, server_id: int, rng: Random) -> None:
        self.world = world
        self.server_id = server_id
        self.rng = rng
        profile = world.profile
        self.clock = SimClock(world.loop, rng)
        self.disk = SimDisk(
            world.loop, rng, self, world.coverage.hit, recent_max=profile.recent_max, snap_count=profile.snap_count
        )
        self.incarnation = 0
        self.is_running = False
        self.is_powered = True
        self.is_paused = False
        self.outbox: list[tuple[int, Conn, bytes | None]] = []
        self.conns: dict[int, Conn] = {}
        self._held: deque[tuple[int, Call, tuple[object, ...]]] = deque()
        self._flush_wanted = False
        # What the checks remember about this process.
        self.seen_role: RoleChange | None = None
        self.seen_tree: object = None
        self.seen_zxid = 0
        self.seen_applied = 0
        self.seen_epoch = 0
        self.leading: Leading | None = None
        self.seen_commit = 0

    @property
    def is_voter(self) -> bool:
        return self.server_id in self.world.voters

    # The process.

    def start(self) -> None:
        """Run a new process on what the disk holds."""
        self.incarnation += 1
        self.is_running = self.is_powered = True
        self.world.note("start", self.server_id)
        self.ports = Ports(self.world.net, self)
        recovered = self.world.recover(self)
        self.world.checks.recovered(self, recovered.tree)
        self.member = Member(self._options(), recovered, self.disk, self.ports, self.clock, wake=self._wake)
        self.seen_role, self.seen_tree = self.member.role, recovered.tree
        self.seen_zxid = recovered.tree.last_zxid
        self.seen_applied = self.seen_epoch = self.seen_commit = self.disk.applied = 0
        self.leading = None
        self._flush_wanted = False
        self._tick(self.incarnation)

    def _options(self) -> Options:
        return self.world.options(self.server_id)

    def stop(self, *, power_cut: bool) -> None:
        """The process ends without a word, wherever it is."""
        if not self.is_running:
            return
        self.world.note("power cut" if power_cut else "killed", self.server_id)
        self.is_running = False
        self.is_powered = not power_cut
        self.incarnation += 1
        self.is_paused = False
        self._held.clear()
        self.outbox.clear()
        self.disk.stop(power_cut=power_cut)
        self.ports.gone(power_cut=power_cut)
        conns, self.conns = self.conns, {}
        for conn in conns.values():
            conn.process_gone(power_cut=power_cut)
        self.world.checks.stopped(self)

    def call(self, incarnation: int, call: Call, *args: object) -> None:
        if incarnation != self.incarnation or not self.is_running:
            return
        if self.is_paused:
            self._held.append((incarnation, call, args))
            return
        self.world.stepped(self.server_id)
        try:
            call(*args)
        except CrashError:
            self._after_call()
            self.stop(power_cut=self.rng.random() < 0.7)
            self.world.coverage.hit("crash inside a step")
            self.world.revive(self)
            return
        except Violation:
            raise
        except Exception as e:
            raise Violation(f"server {self.server_id} raised {e!r}\n{traceback.format_exc()}") from e
        self._after_call()

    def _after_call(self) -> None:
        self.world.checks.after(self)
        if self.outbox:
            outbox, self.outbox = self.outbox, []
            # The order among connections is that of a set inside the server, and no seed decides it.
            for _, conn, data in sorted(outbox, key=itemgetter(0)):
                conn.delivered(data)

    def pause(self, duration_us: int) -> None:
        """Time goes on, the process does not; what arrives waits."""
        if self.is_running and not self.is_paused:
            self.world.note("paused", self.server_id)
            self.is_paused = True
            self.world.loop.after(duration_us, self.resume, self.incarnation)

    def resume(self, incarnation: int) -> None:
        if incarnation != self.incarnation or not self.is_paused:
            return
        self.is_paused = False
        self.world.checks.sessions.resumed(self)
        held, self._held = self._held, deque()
        if self.rng.random() < 0.5:
            self.call(incarnation, self.member.tick)
        for meant_for, call, args in held:
            self.call(meant_for, call, *args)

    def _tick(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        if not self.is_paused:
            self.call(incarnation, self.member.tick)
            self.world.checks.ticked(self)
        self.world.loop.after(TICK_US + self.rng.randint(0, 10 * MS), self._tick, incarnation)

    def _wake(self) -> None:
        if not self._flush_wanted:
            self._flush_wanted = True
            self.world.loop.after(self.rng.randint(0, FLUSH_US), self.call, self.incarnation, self._flush)

    def _flush(self) -> None:
        self._flush_wanted = False
        self.member.flush()

    # What the disk and the network report.

    def on_synced(self, zxid: int) -> None:
        self.call(self.incarnation, self.member.on_synced, zxid)

    def on_appending(self, entries: Sequence[Entry]) -> None:
        self.world.checks.appending(self, entries)

    def on_sending(self, link: int, message: Message) -> None:
        self.world.checks.sending(self, link, message)

    def on_streaming(self, link: int, stream: Stream) -> None:
        stream.past = [entry for entry in self.disk.history if entry.zxid <= stream.zxid]
        self.world.checks.streaming(self, link)

    def on_message(self, link: int, message: Message) -> None:
        if isinstance(message, Touch):
            for session_id in message.session_ids:
                self.heard_from(session_id)
        elif isinstance(message, Revalidate):
            self.heard_from(message.session_id, agreed_ms=message.timeout_ms)
        self.member.on_message(link, message)

    def on_stream(self, link: int, stream: Stream) -> None:
        tree = self.disk.install(stream.zxid, tuple(stream.chunks), stream.past)
        self.world.checks.installed(self, tree)
        self.member.on_snapshot(link, stream.zxid, tree)

    def heard_from(self, session_id: int, *, agreed_ms: int | None = None) -> None:
        """A session's client spoke, and if it came back, this timeout holds from now on."""
        self.world.checks.sessions.heard(self, session_id, agreed_ms)
