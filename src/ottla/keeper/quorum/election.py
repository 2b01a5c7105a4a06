"""Who should lead: one server's part in one election.

Rules. Every server starts a *round* by proposing itself, and adopts any better vote it hears in that round: highest
epoch, then highest zxid, then highest server id, so that the winner has the longest history. A server that hears of a
later round joins it; one that hears an earlier round answers, so that the other catches up. Once a quorum holds the
same vote, the election is decided: at once if every voter holds it, else after ``finalize_ms`` without a better one.

Servers that already lead or follow answer notifications with what they have. One of them says that it leads and, with us,
a quorum would follow it: that decides too.

Observers ask and listen. They have no round of their own, take part in whichever the voters are in, and never answer:
two servers that answer each other's answers would do so for ever.

    heard while LOOKING                   then
    ───────────────────────────────────   ──────────────────────────────────────────────────────────
    LOOKING, later round                  join the round, keep the better vote, tell everybody
    LOOKING, same round, better vote      adopt it, tell everybody
    LOOKING, same round, same vote        remember it
    LOOKING, same round, worse vote       remember it, answer with our vote, which the sender cannot have heard
    LOOKING, earlier round                answer the sender with our vote
    LEADING / FOLLOWING                   remember it; follow that leader if that makes a quorum

*Blank* servers hold nothing and have promised nothing. One may be new, or may have lost a disk whose contents it once
acknowledged; its vote for an empty history could then outvote a committed one. So a blank server's vote counts only
while every server heard from is blank too, or every voter was heard from and none has a single transaction. Where
nothing but their votes is missing, that is said once: an operator who meant it so, as when one server becomes three,
has to give them the data.

*Unreachable* servers were elected and could not be called. Where messages are lost in one direction only, the best
candidate may be one that is heard and does not hear; votes for it are passed over for a while, or it would be elected
again and again.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.keeper.quorum.effects import Effects
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import Notification, Role, Vote


class Election:
    """One server, looking. ``decided`` is the vote that won, as soon as there is one."""

    def __init__(
        self,
        members: Membership,
        timing: Timing,
        initial: Vote,
        *,
        blank: bool,
        round_: int,
        now_ms: int,
        unreachable: Mapping[int, int],
    ) -> None:
        self.members = members
        self.timing = timing
        self.initial = initial
        self.blank = blank
        self.round = round_
        self.vote = initial
        self.decided: Vote | None = None
        self._unreachable = unreachable
        """By server, until when."""
        self._votes: dict[int, Notification] = {}
        self._settled: dict[int, Notification] = {}
        self._heard: dict[int, Notification] = {}
        self._quorum_since_ms: int | None = None
        self._kept_waiting_since_ms: int | None = None
        """Since when nothing but the votes of blank servers is missing."""
        self._told_of_waiting = False
        self._resend_ms = timing.resend_ms
        self._resend_at_ms = now_ms

    def on_notification(self, n: Notification, now_ms: int, effects: Effects) -> None:
        self._heard[n.sender] = n
        if n.role is Role.LOOKING:
            self._settled.pop(n.sender, None)
            if now_ms >= self._unreachable.get(n.vote.leader, 0):
                self._on_looking(n, effects)
        elif n.role in (Role.LEADING, Role.FOLLOWING):
            self._settled[n.sender] = n
            self._on_settled(n)
        if self.decided is None:
            self._tally(now_ms)

    def _on_looking(self, n: Notification, effects: Effects) -> None:
        if n.sender not in self.members.voters or n.round < self.round:
            self._answer(n.sender, effects)
            return
        if n.round > self.round:
            self.round = n.round
            self._votes.clear()
            self._quorum_since_ms = None
            self._adopt(max(n.vote, self.initial) if self.members.is_voter else n.vote, effects)
        elif n.vote > self.vote:
            self._adopt(n.vote, effects)
        elif n.vote < self.vote:
            self._answer(n.sender, effects)
        self._votes[n.sender] = n

    def _adopt(self, vote: Vote, effects: Effects) -> None:
        self.vote = vote
        self._quorum_since_ms = None
        if self.members.is_voter:
            self.tell_everybody(effects)

    def _on_settled(self, n: Notification) -> None:
        leader = n.vote.leader
        said = self._settled.get(leader)
        if said is None or said.role is not Role.LEADING:
            return
        agreed = [s for s, other in self._settled.items() if other.vote.leader == leader]
        if not self.blank:
            agreed.append(self.members.server_id)  # joining is what would make it a quorum
        if self.members.is_quorum(agreed):
            self.decided = said.vote

    def _tally(self, now_ms: int) -> None:
        """See whether a quorum holds our vote, and whether waiting longer could change it."""
        holders = [s for s, n in self._votes.items() if n.vote == self.vote and self._counts(n.blank)]
        if self.members.is_voter and self._counts(self.blank):
            holders.append(self.members.server_id)
        if not self.members.is_quorum(holders):
            self._quorum_since_ms = None
            return
        if self._quorum_since_ms is None:
            self._quorum_since_ms = now_ms
        unanimous = len(holders) == len(self.members.voters)
        if unanimous or now_ms - self._quorum_since_ms >= self.timing.finalize_ms:
            self.decided = self.vote

    def _counts(self, blank: bool) -> bool:
        if not blank:
            return True
        heard = [n for s, n in self._heard.items() if s in self.members.voters]
        if self.blank and all(n.blank for n in heard):
            return True
        everybody = len({n.sender for n in heard} | {self.members.server_id}) == len(self.members.voters)
        return everybody and self.initial.zxid == 0 and all(n.vote.zxid == 0 for n in heard)

    def tick(self, now_ms: int, effects: Effects) -> None:
        if now_ms >= self._resend_at_ms:
            self._resend_at_ms = now_ms + self._resend_ms
            self._resend_ms = min(2 * self._resend_ms, self.timing.tick_ms)
            self.tell_everybody(effects)
        if self.decided is None:
            self._tally(now_ms)
        if self.decided is None:
            self._maybe_tell_of_waiting(now_ms, effects)

    def _maybe_tell_of_waiting(self, now_ms: int, effects: Effects) -> None:
        agreed = {s for s, n in self._votes.items() if n.vote == self.vote}
        blank = {s for s in agreed if self._votes[s].blank}
        waits = not self.blank and blank and self.members.is_quorum({self.members.server_id, *agreed})
        if not waits:
            self._kept_waiting_since_ms = None
            return
        if self._kept_waiting_since_ms is None:
            self._kept_waiting_since_ms = now_ms
        elif not self._told_of_waiting and now_ms - self._kept_waiting_since_ms >= self.timing.tick_ms:
            self._told_of_waiting = True
            names = ", ".join(map(str, sorted(blank)))
            effects.log.append(
                f"there is no leader, because these servers hold no data and so do not vote: {names}. Start another server "
                "that holds data; if there is none, stop all, and copy version-2 of the data directories from the server "
                "with the most recent data, so that a majority holds it"
            )

    def next_ms(self) -> int:
        """When ``tick`` has something to do."""
        if self._quorum_since_ms is None:
            return self._resend_at_ms
        return min(self._resend_at_ms, self._quorum_since_ms + self.timing.finalize_ms)

    def tell_everybody(self, effects: Effects) -> None:
        for server_id in self.members.others:
            self._tell(server_id, effects)

    def _answer(self, server_id: int, effects: Effects) -> None:
        if self.members.is_voter:
            self._tell(server_id, effects)

    def _tell(self, server_id: int, effects: Effects) -> None:
        mine = Notification(self.members.server_id, Role.LOOKING, self.round, self.vote, self.blank)
        effects.notify.append((server_id, mine))
