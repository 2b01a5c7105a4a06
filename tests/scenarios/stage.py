"""Quorum machines on a stage: no chance, no time but what the script gives, and a trace that people can read.

Notifications and links deliver at once and in order, unless they are cut. Disks sync at once, unless they are slow.
``Stage`` is what scenarios and the unit tests of ``ottla.keeper.quorum`` play on.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.effects import (
    Effects,
    Event,
    LinkDown,
    LinkUp,
    Notified,
    Proposed,
    Received,
    Synced,
    Tick,
    Truncated,
)
from ottla.keeper.quorum.history import Recent, counter_of, epoch_of
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    CommitOnSync,
    LeaderInfo,
    LearnerInfo,
    LinkMessage,
    NewLeader,
    Notification,
    Ping,
    Pong,
    Propose,
    Role,
    Snapshot,
    Truncate,
    UpToDate,
)
from ottla.keeper.quorum.peer import Peer
from ottla.keeper.quorum.state import Durable

TIMING = Timing(tick_ms=1000, init_ms=5000, sync_ms=3000, finalize_ms=100, resend_ms=200)
DELIVERED_MAX = 2000


def shown(zxid: int) -> str:
    return f"{epoch_of(zxid)}:{counter_of(zxid):x}" if zxid else "0"


class Disk:
    """What a server keeps when its process ends."""

    def __init__(self) -> None:
        self.accepted_epoch = 0
        self.current_epoch = 0
        self.base = 0
        """The zxid of a snapshot below which nothing can be undone."""
        self.log: list[Entry] = []
        self.unsynced = 0
        self.is_slow = False

    @property
    def last_zxid(self) -> int:
        return self.log[-1].zxid if self.log else self.base

    def __str__(self) -> str:
        entries = " ".join(shown(entry.zxid) for entry in self.log)
        base = f"[{shown(self.base)}] " if self.base else ""
        return f"promised {self.accepted_epoch}, epoch {self.current_epoch}, log {base}{entries or 'empty'}"


class Actor:
    """A server: its disk, and its machine while it runs."""

    def __init__(self, members: Membership) -> None:
        self.members = members
        self.disk = Disk()
        self.peer: Peer | None = None
        self.links: dict[int, int] = {}
        """Link number to the server at the other end."""
        self.committed = 0

    @property
    def leading(self) -> Leading:
        assert self.peer is not None
        assert isinstance(self.peer.state, Leading), "does not lead"
        return self.peer.state


class Post(NamedTuple):
    """Something on its way to a server."""

    source: int
    target: int
    event: Event


class Stage:
    """All servers, what is on its way between them, and the trace."""

    def __init__(self, voters: int, observers: int = 0, *, recent_max: int = 500) -> None:
        ids = range(1, voters + observers + 1)
        members = Membership(0, frozenset(ids[:voters]), frozenset(ids[voters:]))
        self.actors = {i: Actor(members._replace(server_id=i)) for i in ids}
        self.now_ms = 0
        self.cuts: set[tuple[int, int]] = set()
        self.trace: list[str] = []
        self._recent_max = recent_max
        self._posts: deque[Post] = deque()
        self._links = 0

    # The script.

    def start(self, server_id: int) -> None:
        actor = self.actors[server_id]
        disk = actor.disk
        recent = Recent(disk.base, count_max=self._recent_max)
        recent.append(disk.log[-2 * self._recent_max :])
        recent.applied_zxid = recent.last_zxid
        durable = Durable(disk.accepted_epoch, disk.current_epoch, disk.last_zxid)
        actor.peer = Peer(actor.members, TIMING, durable, recent, self.now_ms)
        actor.committed = 0
        self.say(f"{server_id} starts: {disk}")

    def stop(self, server_id: int) -> None:
        """The process ends, and what its disk had not synced is gone."""
        actor = self.actors[server_id]
        actor.peer = None
        if actor.disk.unsynced:
            del actor.disk.log[-actor.disk.unsynced :]
            actor.disk.unsynced = 0
        self.say(f"{server_id} stops: {actor.disk}")
        for link, other in list(actor.links.items()):
            self._hang_up(server_id, link, other)

    def wipe(self, server_id: int) -> None:
        self.actors[server_id].disk = Disk()
        self.say(f"{server_id} loses its disk")

    def cut(self, one: int, other: int) -> None:
        """Nothing passes between the two any more, and what was on its way is lost."""
        self.cuts |= {(one, other), (other, one)}

    def mend(self) -> None:
        self.cuts.clear()

    def propose(self, server_id: int, count: int = 1) -> None:
        leading = self.actors[server_id].leading
        entries = []
        for _ in range(count):
            zxid = leading.next_zxid()
            leading.reserve(zxid)
            entries.append(Entry(zxid, f"from {server_id}".encode()))
        self.say(
            f"{server_id} is asked for {shown(entries[0].zxid)}{f'…{shown(entries[-1].zxid)}' if count > 1 else ''}"
        )
        self.step(server_id, Proposed(tuple(entries)))

    def sync(self, server_id: int) -> None:
        """The slow disk of a server catches up."""
        disk = self.actors[server_id].disk
        disk.is_slow, disk.unsynced = False, 0
        self.say(f"{server_id} syncs up to {shown(disk.last_zxid)}")
        self.step(server_id, Synced(disk.last_zxid))

    def run(self, duration_ms: int = 0) -> None:
        """Deliver everything, and let time pass."""
        end_ms, delivered = self.now_ms + duration_ms, 0
        while True:
            while self._posts:
                self._deliver(self._posts.popleft())
                delivered += 1
                assert delivered < DELIVERED_MAX, "this goes round in circles"
            running = [(actor.peer.next_ms(), i) for i, actor in self.actors.items() if actor.peer is not None]
            due_ms = max(self.now_ms, min(running)[0]) if running else end_ms
            if due_ms > end_ms or not running or duration_ms == 0:
                self.now_ms = end_ms
                return
            self.now_ms = due_ms
            for next_ms, i in sorted(running):
                if next_ms <= self.now_ms:
                    self.step(i, Tick())

    # What comes of it.

    def say(self, line: str) -> None:
        self.trace.append(line)

    def step(self, server_id: int, event: Event) -> None:
        actor = self.actors[server_id]
        if actor.peer is not None:
            self._execute(server_id, actor, actor.peer.step(event, self.now_ms))

    def _execute(self, me: int, actor: Actor, effects: Effects) -> None:
        disk = actor.disk
        if effects.accepted_epoch is not None:
            disk.accepted_epoch = effects.accepted_epoch
            self.say(f"{me} promises epoch {effects.accepted_epoch}")
        if effects.truncate_to is not None:
            self._truncate(me, disk, effects.truncate_to)
        if effects.append:
            self._append(me, disk, effects.append)
        if effects.current_epoch is not None:
            disk.current_epoch = effects.current_epoch
            self.say(f"{me} takes over the history of epoch {effects.current_epoch}, up to {shown(disk.last_zxid)}")
        if effects.commit is not None:
            actor.committed = effects.commit
            assert actor.peer is not None
            actor.peer.recent.applied_zxid = max(actor.peer.recent.applied_zxid, effects.commit)
            self.say(f"{me} commits up to {shown(effects.commit)}")
        for line in effects.log:
            self.say(f"{me} says: {line}")
        if effects.role is not None:
            role, leader, epoch, serving = effects.role
            whom = f" {leader}" if role in (Role.FOLLOWING, Role.OBSERVING) else ""
            self.say(f"{me} is {role.name}{whom}{f' in epoch {epoch}, and serves' if serving else ''}")
        for link in effects.close:
            if link in actor.links:
                self._hang_up(me, link, actor.links[link])
        if effects.connect is not None:
            self._connect(me, effects.connect)
        for link, message in effects.send:
            if link in actor.links:
                self._post(me, actor.links[link], Received(link, message))
        self._notify(me, effects.notify)

    def _append(self, me: int, disk: Disk, entries: list[Entry]) -> None:
        disk.log += entries
        if disk.is_slow:
            disk.unsynced += len(entries)
        else:
            self._posts.append(Post(me, me, Synced(disk.last_zxid)))

    def _truncate(self, me: int, disk: Disk, zxid: int) -> None:
        if disk.base <= zxid:
            disk.log = [entry for entry in disk.log if entry.zxid <= zxid]
            disk.unsynced = 0
        self.say(f"{me} truncates its log to {shown(disk.last_zxid)}")
        self._posts.appendleft(Post(me, me, Truncated(disk.last_zxid)))

    def _connect(self, me: int, leader: int) -> None:
        self._links += 1
        link, peer = self._links, self.actors[leader].peer
        if (me, leader) in self.cuts or peer is None:
            self._posts.append(Post(leader, me, LinkDown(link)))
            return
        self.actors[me].links[link] = leader
        self.actors[leader].links[link] = me
        self._posts.append(Post(leader, me, LinkUp(link)))

    def _hang_up(self, me: int, link: int, other: int) -> None:
        del self.actors[me].links[link]
        if self.actors[other].links.pop(link, None) is not None:
            self._posts.append(Post(me, other, LinkDown(link)))

    def _post(self, source: int, target: int, event: Event) -> None:
        if (source, target) not in self.cuts:
            self._posts.append(Post(source, target, event))

    def _notify(self, me: int, notifications: list[tuple[int, Notification]]) -> None:
        targets: dict[Notification, list[str]] = {}
        for target, notification in notifications:
            targets.setdefault(notification, []).append(str(target))
            self._post(me, target, Notified(notification))
        for notification, ids in targets.items():
            self.say(f"{me} → {' '.join(ids)}  {_describe_notification(notification)}")

    def _deliver(self, post: Post) -> None:
        source, target, event = post
        actor = self.actors[target]
        if actor.peer is None or (source != target and (source, target) in self.cuts):
            return
        if isinstance(event, Received):
            if event.link not in actor.links:
                return
            if not isinstance(event.message, Ping | Pong):
                self.say(f"{source} → {target}  {_describe(event.message)}")
            if isinstance(event.message, Snapshot):
                actor.disk.base, actor.disk.log, actor.disk.unsynced = event.message.zxid, [], 0
        self.step(target, event)


def _describe_notification(n: Notification) -> str:
    blank = ", blank" if n.blank else ""
    vote = f"{n.vote.leader} (epoch {n.vote.epoch}, {shown(n.vote.zxid)})" if n.vote.epoch >= 0 else "nobody"
    return f"{n.role.name} in round {n.round}, for {vote}{blank}"


def _describe(message: LinkMessage) -> str:
    match message:
        case LearnerInfo(server_id, accepted_epoch, blank):
            return f"LearnerInfo: server {server_id}, promised epoch {accepted_epoch}{', blank' if blank else ''}"
        case LeaderInfo(epoch):
            return f"LeaderInfo: epoch {epoch}"
        case AckEpoch(fresh, current_epoch, last_zxid, whole):
            doubts = f"{'' if fresh else ', promised before'}{'' if whole else ', not whole'}"
            return f"AckEpoch: history of epoch {current_epoch}, up to {shown(last_zxid)}{doubts}"
        case Truncate(zxid):
            return f"TRUNC to {shown(zxid)}"
        case Snapshot(zxid):
            return f"SNAP of {shown(zxid)}"
        case Propose(entries=entries):
            return f"Propose: {' '.join(shown(entry.zxid) for entry in entries)}"
        case NewLeader(epoch):
            return f"NewLeader: epoch {epoch}"
        case AckNewLeader(epoch, zxid):
            return f"AckNewLeader: epoch {epoch}, durable up to {shown(zxid)}"
        case UpToDate(zxid):
            return f"UpToDate: committed up to {shown(zxid)}"
        case Ack(zxid=zxid):
            return f"Ack: {shown(zxid)}"
        case Commit(zxid=zxid):
            return f"Commit: {shown(zxid)}"
        case CommitOnSync(zxid=zxid):
            return f"CommitOnSync: {shown(zxid)}"
    return type(message).__name__
