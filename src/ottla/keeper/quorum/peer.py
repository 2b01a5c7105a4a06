"""One server of an ensemble: looking for a leader, leading, or learning from one.

    LOOKING ──elected──► LEADING ──────────────────────────┐
       ▲  └──another is──► FOLLOWING / OBSERVING ──────────┤
       └───────────── any failure, loss or doubt ◄─────────┘

``step`` is the only entry. Whatever goes wrong in a role, the answer is the same: close every link, count up the round
and look again; what is on disk decides the rest.
"""

from __future__ import annotations

from typing import Final, assert_never

from ottla.keeper.quorum.effects import (
    Effects,
    Event,
    LinkDown,
    LinkUp,
    Notified,
    Proposed,
    Received,
    RoleChange,
    Synced,
    Tick,
    Truncated,
)
from ottla.keeper.quorum.election import Election
from ottla.keeper.quorum.history import Recent
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.quorum.learning import Learning
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import LearnerInfo, Notification, Role, Vote
from ottla.keeper.quorum.state import Durable

EARLY_ROUNDS: Final = 5
"""How many times the wait for a better vote a learner that called too early is kept waiting."""


class Peer:
    """The machine. ``state`` is the role's own machine; exactly one exists at a time."""

    def __init__(self, members: Membership, timing: Timing, durable: Durable, recent: Recent, now_ms: int) -> None:
        assert recent.last_zxid == durable.synced_zxid, "the machine starts from what is durable"
        self.members = members
        self.timing = timing
        self.durable = durable
        self.recent = recent
        self.round = 0
        self._links: set[int] = set()
        self._early: dict[int, tuple[LearnerInfo, int]] = {}
        """Learners that called before we knew that we lead, and when; answered if we do, sent away if not."""
        self._unreachable: dict[int, int] = {}
        """Servers that were elected and could not be called; see ``election``."""
        self._vote = Vote(0, 0, 0)
        self.state: Election | Leading | Learning = self._new_election(now_ms)

    def _new_election(self, now_ms: int) -> Election:
        self.round += 1
        mine = Vote(self.durable.current_epoch, self.recent.last_zxid, self.members.server_id)
        if not self.members.is_voter:
            mine = Vote(-1, -1, self.members.server_id)
        return Election(
            self.members,
            self.timing,
            mine,
            blank=self.durable.is_blank,
            round_=self.round if self.members.is_voter else 0,
            now_ms=now_ms,
            unreachable=self._unreachable,
        )

    @property
    def role(self) -> Role:
        if isinstance(self.state, Election):
            return Role.LOOKING
        return Role.LEADING if isinstance(self.state, Leading) else self.state.role

    def step(self, event: Event, now_ms: int) -> Effects:
        effects = Effects()
        self._dispatch(event, now_ms, effects)
        state = self.state
        if isinstance(state, Election):
            if state.decided is not None:
                self._settle(state, state.decided, now_ms, effects)
        elif state.failed is not None:
            self._look(state.failed, now_ms, effects)
        return effects

    def _dispatch(self, event: Event, now_ms: int, effects: Effects) -> None:
        state = self.state
        match event:
            case Received():
                self._links.add(event.link)
                if not isinstance(state, Election):
                    state.on_message(event.link, event.message, now_ms, effects)
                elif isinstance(event.message, LearnerInfo):
                    self._early[event.link] = event.message, now_ms
                else:
                    effects.close.append(event.link)
            case Synced():
                self.durable.synced_zxid = max(self.durable.synced_zxid, event.zxid)
                if not isinstance(state, Election):
                    state.on_synced(effects)
            case Proposed():
                assert isinstance(state, Leading)
                state.propose(event.entries, effects)
            case Notified():
                self._on_notification(event.notification, now_ms, effects)
            case Tick():
                self._tick(now_ms, effects)
            case LinkUp():
                self._links.add(event.link)
                if isinstance(state, Learning):
                    state.on_link_up(event.link, now_ms, effects)
                else:
                    effects.close.append(event.link)
            case LinkDown():
                self._early.pop(event.link, None)
                if isinstance(state, Leading):
                    state.on_link_down(event.link)
                elif isinstance(state, Learning) and (event.link == state.link or event.link not in self._links):
                    # Not if somebody who had called us hangs up; a call of ours that came to nothing was never a link.
                    state.on_link_down(event.link)
                self._links.discard(event.link)
            case Truncated():
                assert isinstance(state, Learning)
                state.on_truncated(event.zxid)
            case _:
                assert_never(event)

    def _tick(self, now_ms: int, effects: Effects) -> None:
        if isinstance(self.state, Learning):
            self.state.tick(now_ms)
            return
        self.state.tick(now_ms, effects)
        for link, (_, since_ms) in list(self._early.items()):
            if now_ms - since_ms > EARLY_ROUNDS * self.timing.finalize_ms:
                # It waits for a leader we are not; it had better look again.
                del self._early[link]
                effects.close.append(link)

    def next_ms(self) -> int:
        """When the next Tick is due, if nothing happens before."""
        return self.state.next_ms()

    def _on_notification(self, n: Notification, now_ms: int, effects: Effects) -> None:
        if not self.members.knows(n.sender) or n.sender == self.members.server_id:
            return
        if isinstance(self.state, Election):
            self.state.on_notification(n, now_ms, effects)
        elif n.role is Role.LOOKING and self.members.is_voter:
            answer = Notification(self.members.server_id, self.role, self.round, self._vote, self.durable.is_blank)
            effects.notify.append((n.sender, answer))

    def _settle(self, election: Election, vote: Vote, now_ms: int, effects: Effects) -> None:
        """The election is over: take the role it gives us."""
        self.round = election.round
        self._vote = vote
        if vote.leader == self.members.server_id:
            leading = Leading(self.members, self.timing, self.durable, self.recent, now_ms)
            self.state = leading
            effects.role = RoleChange(Role.LEADING, vote.leader, 0, serving=False)
            # Those still looking are told at once; they would otherwise ask again only after a while.
            mine = Notification(self.members.server_id, Role.LEADING, self.round, vote, self.durable.is_blank)
            effects.notify += [(server_id, mine) for server_id in self.members.others]
            leading.maybe_propose_epoch(effects)
            early, self._early = self._early, {}
            for link, (info, _) in early.items():
                leading.on_message(link, info, now_ms, effects)
            return
        effects.close += sorted(self._early)
        self._early.clear()
        learning = Learning(self.members, self.timing, self.durable, self.recent, vote.leader, now_ms)
        self.state = learning
        effects.role = RoleChange(learning.role, vote.leader, 0, serving=False)
        effects.connect = vote.leader

    def _look(self, why: str, now_ms: int, effects: Effects) -> None:
        effects.log.append(f"looking for a leader: {why}")
        effects.close = sorted(self._links)
        self._links.clear()
        self._early.clear()
        effects.send.clear()
        effects.connect = None
        if isinstance(self.state, Learning) and self.state.link is None:
            self._unreachable[self.state.leader] = now_ms + self.timing.init_ms // 2
        self.state = self._new_election(now_ms)
        self._vote = Vote(0, 0, 0)
        effects.role = RoleChange(Role.LOOKING, None, 0, serving=False)
        self.state.tick(now_ms, effects)
