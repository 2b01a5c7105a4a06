"""The invariants of ``guarantees.md`` that concern servers, looked at after every step of any of them.

A step changes one server only, so only that one is looked at, and only where something moved. Whatever a server takes
for committed, be it the leader or a follower that completes the quorum, enters the ``Truth`` in the same instant, which
is before anybody else can act on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.keeper.messages import Message
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.txns import CloseSessionTxn, Entry
from ottla.keeper.quorum.history import counter_of
from ottla.keeper.quorum.leading import Leading, Phase
from ottla.keeper.quorum.learning import Learning
from ottla.keeper.quorum.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    LeaderInfo,
    NewLeader,
    Role,
    Truncate,
    UpToDate,
)
from ottla.keeper.server.tree import DataTree
from tests.sim.loop import Violation
from tests.sim.sessions import SessionChecks

if TYPE_CHECKING:
    from tests.sim.server import Server
    from tests.sim.world import World


class Checks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._truth = world.truth
        self._hit = world.coverage.hit
        self.sessions = SessionChecks(world.timing.tick_ms, world.coverage.hit)
        self.leaders: dict[int, int] = {}
        """Who was established in which epoch."""
        self._syncs: dict[tuple[int, int, int], str] = {}

    def after(self, server: Server) -> None:
        """A step of ``server`` is over."""
        member = server.member
        state = member.peer.state
        if isinstance(state, Leading):
            server.leading = state
        # A step may commit and step down at once, so the state it leaves behind has to be looked at, too.
        leading = server.leading
        if leading is not None and leading.phase is Phase.BROADCAST:
            if server.seen_epoch != leading.epoch:
                self._established(server, leading)
            if leading.committed_zxid != server.seen_commit:
                self._committed(server, leading.committed_zxid, leading.epoch)
            if leading is not state:
                server.leading = None
        self.sessions.stepped(server)
        tree = member.frontend.tree
        if isinstance(state, Learning) and member.role.serving and tree.last_zxid > self._truth.last_zxid:
            self._committed(server, tree.last_zxid, state.epoch)
            self._hit("a follower committed before its leader")
        if member.role is not server.seen_role:
            self._role_changed(server)
        if tree.last_zxid != server.seen_zxid or tree is not server.seen_tree:
            self._tree_changed(server, tree)
        if member.role.serving and tree.last_zxid not in self._truth:
            raise Violation(f"Z4: server {server.server_id} serves 0x{tree.last_zxid:x}, which is not committed")
        if member.stats.digest_mismatches:
            raise Violation(f"Z4: server {server.server_id} found its tree to differ from the leader's")

    # Leaders.

    def _established(self, server: Server, state: Leading) -> None:
        server.seen_epoch = state.epoch
        before = self.leaders.setdefault(state.epoch, server.server_id)
        if before != server.server_id:
            raise Violation(f"Z3: servers {before} and {server.server_id} both lead epoch {state.epoch}")
        newest = max(self.leaders)
        self._hit("leader elected among three" if len(self._world.voters) == 3 else "leader elected among five")
        self.sessions.leads(server, state.epoch)
        if state.epoch < newest:
            return  # it slept while those that had promised it this epoch went on without it, and is about to find out
        committed = self._truth.committed
        history = [entry.zxid for entry in server.disk.history]
        if history[: len(committed)] != committed:
            lost = sorted(set(committed) - set(history))
            raise Violation(
                f"Z2: server {server.server_id} leads epoch {state.epoch} without {[hex(z) for z in lost[:5]]}"
            )
        if len(history) > len(committed):
            self._hit("uncommitted proposals survived their leader")

    def _committed(self, server: Server, zxid: int, epoch: int) -> None:
        truth = self._truth
        server.seen_commit = zxid
        if zxid <= truth.last_zxid:
            if zxid not in truth:
                raise Violation(f"Z4: server {server.server_id} commits 0x{zxid:x}, long passed over")
            return
        if epoch < max(self.leaders):
            raise Violation(f"Z3: epoch {epoch} commits 0x{zxid:x} under epoch {max(self.leaders)}")
        history = server.disk.history
        decided = [entry for entry in history[len(truth.committed) :] if entry.zxid <= zxid]
        if not decided or decided[-1].zxid != zxid:
            raise Violation(f"Z4: server {server.server_id} commits 0x{zxid:x}, which it does not hold")
        durable = [s.server_id for s in self._world.servers if s.is_voter and s.disk.had_durable(zxid)]
        if 2 * len(durable) <= len(self._world.voters):
            raise Violation(f"Z1: 0x{zxid:x} committed while durable only on {durable}")
        for txn in truth.commit(decided):
            if txn.type == OpCode.DELETE_CONTAINER:
                self._hit("container or TTL node removed by the ensemble")
            elif isinstance(txn.body, CloseSessionTxn) and txn.body.paths:
                self._hit("ephemeral nodes removed with their session")
        if counter_of(zxid) == 0xFFFFFFFF:
            self._hit("zxid counter used up")

    def _role_changed(self, server: Server) -> None:
        role, before = server.member.role, server.seen_role
        server.seen_role = role
        self._world.note(f"{role.role.name.lower()}{' serving' if role.serving else ''}", server.server_id, role.epoch)
        if before is not None and before.serving and before.role is Role.LEADING:
            self._hit("leader stepped down alive")
        if role.role is not Role.LEADING:
            self.sessions.left(server)
        if role.serving and role.role is Role.OBSERVING:
            self._hit("an observer served clients")
        if role.serving:
            self._world.rejoined(server)
            for other in self._world.servers:
                stale = other is not server and other.is_running and other.member.role
                if stale and stale.role is Role.LEADING and stale.serving and stale.epoch < role.epoch:
                    self._hit("old leader cut off while a new one rules")

    # Trees.

    def _tree_changed(self, server: Server, tree: DataTree) -> None:
        truth, zxid = self._truth, tree.last_zxid
        applied = server.disk.applied
        if zxid in truth:
            self._compare(server, tree)
            if tree is server.seen_tree and server.seen_zxid in truth:
                skipped = truth.index(zxid) - truth.index(server.seen_zxid) - (applied - server.seen_applied)
                if skipped:
                    raise Violation(f"Z4: server {server.server_id} left out {skipped} transactions up to 0x{zxid:x}")
        server.seen_tree, server.seen_zxid, server.seen_applied = tree, zxid, applied

    def _compare(self, server: Server, tree: DataTree) -> None:
        zxid = tree.last_zxid
        if zxid >= tree.fuzzy_until and tree.digest != self._truth.model.digests[zxid]:
            raise Violation(f"Z4: the tree of server {server.server_id} is wrong at 0x{zxid:x}")

    def recovered(self, server: Server, tree: DataTree) -> None:
        if tree.last_zxid != server.disk.last_zxid:
            raise Violation(
                f"Z11: server {server.server_id} starts at 0x{tree.last_zxid:x} of 0x{server.disk.last_zxid:x}"
            )
        if tree.last_zxid in self._truth:
            self._compare(server, tree)

    def installed(self, server: Server, tree: DataTree) -> None:
        self._hit("synchronized by SNAP")
        if tree.fuzzy_until > tree.last_zxid:
            self._hit("synchronized by SNAP, fuzzy")
        if tree.last_zxid in self._truth:
            self._compare(server, tree)

    # Promises.

    def appending(self, server: Server, entries: Sequence[Entry]) -> None:
        self._truth.proposed(entries)
        if server.member.role.role is Role.LEADING:
            self.sessions.proposed(server, entries)

    def sending(self, server: Server, link: int, message: Message) -> None:
        """What is told must be on disk."""
        disk = server.disk
        if isinstance(message, Ack):
            if not disk.has_durable(message.zxid):
                raise Violation(f"Z2: server {server.server_id} acknowledges 0x{message.zxid:x} before it is durable")
        elif isinstance(message, AckNewLeader):
            if not disk.has_durable(message.zxid) or disk.current_epoch != message.epoch:
                raise Violation(f"Z2: server {server.server_id} takes over a history before it is durable")
        elif isinstance(message, AckEpoch | LeaderInfo):
            promised = server.member.peer.durable.accepted_epoch
            if disk.accepted_epoch < promised:
                raise Violation(f"Z3: server {server.server_id} promises epoch {promised} before that is durable")
        elif isinstance(message, Commit | UpToDate):
            if message.zxid not in self._truth and message.zxid > server.seen_commit:
                state = server.member.peer.state
                assert isinstance(state, Leading)
                assert message.zxid <= state.committed_zxid
        elif isinstance(message, Truncate):
            self._syncs[server.server_id, server.incarnation, link] = "synchronized by TRUNC"
            self._hit("uncommitted proposals were truncated")
        elif isinstance(message, NewLeader):
            kind = self._syncs.pop((server.server_id, server.incarnation, link), "synchronized by DIFF")
            self._hit(kind)

    def streaming(self, server: Server, link: int) -> None:
        self._syncs[server.server_id, server.incarnation, link] = "synchronized by SNAP"

    # The life of a process.

    def ticked(self, server: Server) -> None:
        if server.is_running:
            self.sessions.ticked(server)

    def stopped(self, server: Server) -> None:
        self.sessions.left(server)
        role = server.member.role
        if role.role is Role.LEADING and role.serving:
            outstanding = server.disk.last_zxid > self._truth.last_zxid
            self._hit(f"leader crashed with {'proposals' if outstanding else 'nothing'} outstanding")
