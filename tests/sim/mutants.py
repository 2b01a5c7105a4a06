"""The code under test with one bug at a time. A simulation that stays green on one of these proves too little.

Every mutant is a context manager that replaces a method of the product for the while; ``MUTANTS`` names them after the
rule they break. The rows of ``guarantees.md`` that name a seeded bug are all here, and some more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from ottla.keeper.member import Member, Recovered
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.txns import CloseSessionTxn, Entry, TxnBody
from ottla.keeper.quorum import history
from ottla.keeper.quorum.effects import Effects, Event, RoleChange, Truncated
from ottla.keeper.quorum.election import Election
from ottla.keeper.quorum.history import Recent
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.quorum.learning import Learning, Phase
from ottla.keeper.quorum.membership import Membership
from ottla.keeper.quorum.messages import Ack, AckEpoch, AckNewLeader, Commit, LinkMessage, NewLeader, Propose
from ottla.keeper.quorum.peer import Peer
from ottla.keeper.roles import LeaderUpstream, LearnerUpstream
from ottla.keeper.server import prep
from ottla.keeper.server.clients import Client
from ottla.keeper.server.frontend import Frontend
from ottla.keeper.server.sessions import SessionTracker
from ottla.keeper.server.tree import DataTree
from ottla.keeper.server.watches import Watches
from tests.sim.clock import SimClock
from tests.sim.disk import SimDisk

Mutant = Callable[[], AbstractContextManager[object]]
MUTANTS: dict[str, Mutant] = {}


def mutant(make: Mutant) -> Mutant:
    MUTANTS[make.__name__] = make
    return make


def replaced(*patches: Any) -> ExitStack:
    stack = ExitStack()
    for each in patches:
        stack.enter_context(each)
    return stack


def _commit(leading: Leading, zxid: int, effects: Effects) -> None:
    if zxid > leading.committed_zxid:
        leading.committed_zxid = effects.commit = zxid
        effects.send += [(x.link, Commit(zxid)) for x in leading.learners if x.synced]


@mutant
def z1_commit_after_local_sync() -> AbstractContextManager[object]:
    def maybe_commit(self: Leading, effects: Effects) -> None:
        _commit(self, min(self.durable.synced_zxid, self.recent.last_zxid), effects)

    return patch.object(Leading, "_maybe_commit", maybe_commit)


@mutant
def z1_commit_without_own_sync() -> AbstractContextManager[object]:
    """A follower that takes what it could complete for complete."""

    def on_commit_on_sync(self: Learning, zxid: int, effects: Effects) -> None:
        if zxid > self._committed_zxid:
            self._commit(zxid, effects)

    return patch.object(Learning, "_on_commit_on_sync", on_commit_on_sync)


@mutant
def z1_announce_one_too_early() -> AbstractContextManager[object]:
    """The leader calls followers the last missing server while its own disk is missing, too."""

    def propose(self: Leading, entries: tuple[Entry, ...], effects: Effects) -> None:
        announcing(self, entries, effects)
        self._announce(self.recent.last_zxid, [x for x in self.learners if x.synced], effects)

    announcing = Leading.propose
    return patch.object(Leading, "propose", propose)


@mutant
def z2_acknowledge_before_sync() -> AbstractContextManager[object]:
    on_propose = Learning._on_propose

    def acknowledging(self: Learning, message: Propose, effects: Effects) -> None:
        on_propose(self, message, effects)
        if self.phase is Phase.SERVING and self.failed is None:
            self._send(Ack(self.recent.last_zxid), effects)

    return patch.object(Learning, "_on_propose", acknowledging)


@mutant
def z2_take_over_before_sync() -> AbstractContextManager[object]:
    """ZOOKEEPER-3911, -4646, -4685: NEWLEADER is acknowledged while entries are still in the page cache."""

    def maybe_ack(self: Learning, effects: Effects) -> None:
        if self._new_leader is not None and self.phase is Phase.SYNCING:
            self.phase = Phase.SYNCED
            self.durable.current_epoch = effects.current_epoch = self.epoch
            self._acked_zxid = self.recent.last_zxid
            self._send(AckNewLeader(self.epoch, self._acked_zxid), effects)

    return patch.object(Learning, "_maybe_ack_new_leader", maybe_ack)


@mutant
def z2_epoch_before_history() -> AbstractContextManager[object]:
    """ZOOKEEPER-4643: currentEpoch is written first, the acknowledgement waits as it should."""
    on_message = Learning.on_message

    def hasty(self: Learning, link: int, message: LinkMessage, now_ms: int, effects: Effects) -> None:
        if isinstance(message, NewLeader):
            self.durable.current_epoch = effects.current_epoch = message.epoch
        on_message(self, link, message, now_ms, effects)

    return patch.object(Learning, "on_message", hasty)


@mutant
def z3_promise_not_written() -> AbstractContextManager[object]:
    step = Peer.step

    def forgetful(self: Peer, event: Event, now_ms: int) -> Effects:
        effects = step(self, event, now_ms)
        effects.accepted_epoch = None
        return effects

    return patch.object(Peer, "step", forgetful)


@mutant
def z4_truncate_one_too_few() -> AbstractContextManager[object]:
    def truncate(self: Member, to_zxid: int) -> Truncated:
        _, tree = self.disk.truncate_to(to_zxid + 1)
        self._replace_tree(tree)
        self._logged.clear()
        return Truncated(to_zxid)

    return patch.object(Member, "_truncate", truncate)


@mutant
def z4_hole_in_recent_entries() -> AbstractContextManager[object]:
    """ZOOKEEPER-4925: what a leader hands on lacks an entry, and nobody looks."""
    since = Recent.since

    def with_hole(self: Recent, zxid: int) -> list[Entry] | None:
        entries = since(self, zxid)
        return entries[1:] if entries and len(entries) > 1 else entries

    return replaced(
        patch.object(Recent, "since", with_hole),
        patch.object(history, "follows", lambda previous, zxid: zxid > previous),
    )


@mutant
def z5_commit_in_parallel() -> AbstractContextManager[object]:
    commit = Member._commit

    def reordered(self: Member, zxid: int) -> None:
        due = [entry for entry in self._logged if entry.zxid <= zxid]
        for _ in due:
            self._logged.popleft()
        self._logged.extendleft(due)
        commit(self, zxid)

    return patch.object(Member, "_commit", reordered)


@mutant
def z6_ignore_last_zxid_seen() -> AbstractContextManager[object]:
    return patch.object(Frontend, "_refuse", lambda _self, _request: None)


@mutant
def z7_answer_sync_locally() -> AbstractContextManager[object]:
    submit = Frontend._submit

    def local(self: Frontend, client: Client, xid: int, type_: int, *rest: Any) -> None:
        if type_ == OpCode.SYNC and isinstance(self.upstream, LearnerUpstream):
            self.synced(client.session_id, xid)
        else:
            submit(self, client, xid, type_, *rest)

    return patch.object(Frontend, "_submit", local)


@mutant
def z8_event_after_reply() -> AbstractContextManager[object]:
    held: list[tuple[Client, bytes]] = []
    notify, finish_head, close = Client.notify, Frontend._finish_head, Frontend.close

    def hold(self: Client, frame: bytes) -> None:
        held.append((self, frame))

    def release(self: Frontend, client: Client, err: int, body: bytes) -> None:
        finish_head(self, client, err, body)
        _let_go(client)

    def closing(self: Frontend, client: Client) -> None:
        _let_go(client)
        close(self, client)

    def _let_go(client: Client) -> None:
        for watcher, frame in held:
            if watcher is client:
                notify(watcher, frame)
        held[:] = [each for each in held if each[0] is not client]

    return replaced(
        patch.object(Client, "notify", hold),
        patch.object(Frontend, "_finish_head", release),
        patch.object(Frontend, "close", closing),
    )


@mutant
def z8_watches_lost_on_reconnection() -> AbstractContextManager[object]:
    return patch.object(Watches, "reset", lambda _self, _request, _nodes, _watcher: None)


class _WallTracker(SessionTracker):
    clock: SimClock

    def at(self, now_ms: int) -> None:
        super().at(self.clock.wall_ms())

    def expired(self, now_ms: int) -> Iterable[int]:
        return super().expired(self.clock.wall_ms())


@mutant
def z9_timeouts_by_wall_clock() -> AbstractContextManager[object]:
    lead = Member._lead

    def by_wall_clock(self: Member, leading: Leading) -> LeaderUpstream:
        upstream, clock = lead(self, leading), self.clock
        assert isinstance(clock, SimClock)
        tracker = _WallTracker(self.frontend.tree.sessions, self.options.timing.tick_ms, clock.wall_ms())
        tracker.clock = clock
        upstream.tracker = upstream.prep.sessions = tracker
        return upstream

    return patch.object(Member, "_lead", by_wall_clock)


@mutant
def z9_every_server_expires_alone() -> AbstractContextManager[object]:
    housekeep = Member._housekeep
    heard: dict[tuple[int, int], int] = {}

    def expiring(self: Member, now_ms: int) -> None:
        housekeep(self, now_ms)
        if not isinstance(self.frontend.upstream, LearnerUpstream):
            return
        for session_id, timeout_ms in list(self.frontend.tree.sessions.items()):
            key = (id(self), session_id)
            if session_id in self.frontend.by_session:
                heard[key] = now_ms
            elif now_ms - heard.setdefault(key, now_ms) > timeout_ms:
                self.frontend.tree._close_session(CloseSessionTxn(None), session_id, self.frontend.tree.last_zxid)

    return patch.object(Member, "_housekeep", expiring)


@mutant
def z9_ephemeral_outlives_session() -> AbstractContextManager[object]:
    close_session = prep._Step.close_session

    def careless(self: prep._Step, type_: int, parsed: Any) -> TxnBody:
        body = close_session(self, type_, parsed)
        assert isinstance(body, CloseSessionTxn)
        return CloseSessionTxn((body.paths or [])[1:])

    return patch.dict(prep._HANDLERS, {OpCode.CLOSE_SESSION: careless})


@mutant
def z9_old_timeout_kept() -> AbstractContextManager[object]:
    """A client that comes back is told another timeout than the leader goes by."""
    reattach = SessionTracker.reattach

    def keeping(self: SessionTracker, session_id: int, owner: int, timeout_ms: int) -> bool:
        return reattach(self, session_id, owner, self._timeouts.get(session_id, timeout_ms))

    return patch.object(SessionTracker, "reattach", keeping)


@mutant
def z10_multi_not_undone() -> AbstractContextManager[object]:
    return patch.object(prep.Prep, "_roll_back", lambda _self, _mark, _step: None)


@mutant
def z11_start_empty() -> AbstractContextManager[object]:
    """ZOOKEEPER-3056: a server that finds no snapshot takes itself for new, epochs and all."""

    def recover(self: SimDisk) -> Recovered:
        return Recovered(DataTree(), Recent(0), self.accepted_epoch, self.current_epoch)

    return patch.object(SimDisk, "recover", recover)


@mutant
def z12_counter_wraps_around() -> AbstractContextManager[object]:
    follows = history.follows

    def reserve(self: Leading, zxid: int) -> None:
        self._last_proposed = zxid

    return replaced(
        patch.object(Leading, "reserve", reserve),
        patch.object(history, "follows", lambda previous, zxid: zxid == previous + 1 or follows(previous, zxid)),
    )


@mutant
def z13_minority_commits() -> AbstractContextManager[object]:
    def maybe_commit(self: Leading, effects: Effects) -> None:
        acked = [x.acked_zxid for x in self.learners if x.synced and x.info.server_id in self.members.voters]
        acked = sorted([*acked, self.durable.synced_zxid], reverse=True)
        needed = len(self.members.voters) // 2 - 1
        if len(acked) > needed:
            _commit(self, min(acked[needed], self.recent.last_zxid), effects)

    return patch.object(Leading, "_maybe_commit", maybe_commit)


@mutant
def z14_observers_count() -> AbstractContextManager[object]:
    def maybe_commit(self: Leading, effects: Effects) -> None:
        acked = sorted([*(x.acked_zxid for x in self.learners if x.synced), self.durable.synced_zxid], reverse=True)
        needed = len(self.members.voters) // 2
        if len(acked) > needed:
            _commit(self, min(acked[needed], self.recent.last_zxid), effects)

    def is_quorum(self: Membership, servers: Any) -> bool:
        return 2 * len(set(servers)) > len(self.voters)

    return replaced(
        patch.object(Leading, "_maybe_commit", maybe_commit), patch.object(Membership, "is_quorum", is_quorum)
    )


@mutant
def blank_servers_vote() -> AbstractContextManager[object]:
    return replaced(
        patch.object(Election, "_counts", lambda _self, _blank: True),
        patch.object(Leading, "_counts", lambda _self, _learner: True),
    )


@mutant
def serve_before_up_to_date() -> AbstractContextManager[object]:
    """ZOOKEEPER-4394, -4785: what was synchronized is applied and shown before it is known to be committed."""
    maybe_ack = Learning._maybe_ack_new_leader

    def hasty(self: Learning, effects: Effects) -> None:
        maybe_ack(self, effects)
        if self.phase is Phase.SYNCED:
            effects.commit = self.recent.last_zxid
            effects.role = RoleChange(self.role, self.leader, self.epoch, serving=True)

    return patch.object(Learning, "_maybe_ack_new_leader", hasty)


@mutant
def follow_without_checking_the_past() -> AbstractContextManager[object]:
    """A leader does not step down for a longer history."""
    on_ack_epoch = Leading._on_ack_epoch

    def trusting(self: Leading, learner: Any, ack: AckEpoch, effects: Effects) -> None:
        on_ack_epoch(self, learner, ack, effects)
        if self.failed is not None and "longer history" in self.failed:
            self.failed = None
            learner.epoch_ack = ack
            self._promised[learner.info.server_id] = True
            self._maybe_start_syncing(effects)

    return patch.object(Leading, "_on_ack_epoch", trusting)


@mutant
def proposals_past_the_end_of_an_epoch() -> AbstractContextManager[object]:
    """What a leader is asked in the turn in which its counter runs out is numbered all the same."""
    submit = LeaderUpstream.submit

    def eager(self: LeaderUpstream, request: Any) -> None:
        failed: str | None = self.leading.failed
        self.leading.failed = None
        submit(self, request)
        again: str | None = self.leading.failed
        self.leading.failed = again or failed

    follows = history.follows
    return replaced(
        patch.object(LeaderUpstream, "submit", eager),
        patch.object(history, "follows", lambda previous, zxid: zxid == previous + 1 or follows(previous, zxid)),
    )
