"""The network between the servers: notifications like datagrams, links like TCP connections.

A notification may be lost, doubled or late. A link keeps its order, each message delayed by chance, and breaks at any
moment: with both ends told, or one, or none. While the way from one server to another is cut, what is on it waits, as
TCP would have it wait, and arrives after the healing unless the link broke before. Everything is encoded and decoded
on the way, as between processes.

A snapshot is a message that takes time to write: its first chunks show the tree as of sending, the rest as of later,
and whatever is sent behind it waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import NamedTuple, Protocol, cast

from ottla.keeper import wire
from ottla.keeper.member import Member
from ottla.keeper.messages import Message
from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.messages import Notification
from ottla.keeper.server.tree import DataTree
from ottla.keeper.store import encode_snapshot
from tests.sim.disk import take
from tests.sim.loop import MS, Call, Loop

CONNECT_TIMEOUT_US = 1000 * MS
CONNECT_RETRY_US = 100 * MS


class Weather(NamedTuple):
    """What the network is like in a run."""

    delay_us: int
    loss: float
    doubled: float
    late: float


class Host(Protocol):
    """A server, as the network sees it."""

    server_id: int
    incarnation: int
    member: Member

    @property
    def is_running(self) -> bool: ...
    @property
    def is_powered(self) -> bool: ...
    def call(self, incarnation: int, call: Call, *args: object) -> None:
        """Run something in the process, if that is still the one it is meant for."""

    def on_sending(self, link: int, message: Message) -> None: ...
    def on_message(self, link: int, message: Message) -> None: ...
    def on_streaming(self, link: int, stream: Stream) -> None: ...
    def on_stream(self, link: int, stream: Stream) -> None: ...


class Stream:
    """A snapshot on its way."""

    __slots__ = ("chunks", "done", "past", "rest", "zxid")

    def __init__(self, zxid: int, chunks: list[bytes], rest: Iterator[bytes]) -> None:
        self.zxid = zxid
        self.chunks = chunks
        self.rest = rest
        self.done = False
        self.past: list[Entry] = []
        """The transactions it stands for; nothing a server could send, but the checks want to know."""


class Hangup(NamedTuple):
    """The other end has closed."""


Item = Message | Stream | Hangup


class End:
    """One end of a link, and what is on its way to it."""

    __slots__ = ("clear_us", "far", "host", "incarnation", "is_broken", "is_open", "number", "pumping", "queue")
    far: End

    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        self.incarnation = host.incarnation
        self.number = number
        self.is_open = True
        self.is_broken = False
        """Nothing that is sent from here arrives any more, whether this end knows it or not."""
        self.queue: deque[tuple[int, Item]] = deque()
        self.clear_us = 0
        """When the last of them arrives; nothing overtakes it."""
        self.pumping = False

    @property
    def is_live(self) -> bool:
        return self.is_open and self.incarnation == self.host.incarnation


class SimNet:
    """All hosts, links and cuts."""

    def __init__(self, loop: Loop, rng: Random, weather: Weather) -> None:
        self.loop = loop
        self.rng = rng
        self.weather = weather
        self.hosts: dict[int, Host] = {}
        self.cuts: set[tuple[int, int]] = set()
        """(from, to) pairs between which nothing passes."""
        self.slow: dict[tuple[int, int], int] = {}
        """How many times longer than usual messages take."""
        self.flaky = 0.0
        """How likely a link breaks with any message."""
        self.ends: list[End] = []

    def delay_us(self, source: int, target: int) -> int:
        delay = 100 + int(self.weather.delay_us * self.rng.random() ** 3)
        return delay * self.slow.get((source, target), 1)

    def are_cut(self, one: int, other: int) -> bool:
        return (one, other) in self.cuts or (other, one) in self.cuts

    # Notifications.

    def notify(self, source: int, target: int, notification: Notification) -> None:
        rng, weather = self.rng, self.weather
        notification = wire.decode_notification(wire.encode_notification(notification)[4:])
        if rng.random() < weather.loss:
            return
        for _ in range(2 if rng.random() < weather.doubled else 1):
            delay_us = self.delay_us(source, target)
            if rng.random() < weather.late:
                delay_us += rng.randint(50, 3000) * MS
            self.loop.after(delay_us, self._notified, source, target, notification)

    def _notified(self, source: int, target: int, notification: Notification) -> None:
        host = self.hosts[target]
        if (source, target) not in self.cuts and host.is_running:
            host.call(host.incarnation, host.member.on_notification, notification)

    # Links.

    def join(self, near: End, far: End) -> None:
        near.far, far.far = far, near
        self.ends = [end for end in self.ends if end.is_live]
        self.ends += (near, far)

    def send(self, near: End, item: Item) -> None:
        far = near.far
        if near.is_broken:
            return
        if not far.is_live:
            if far.host.is_running and not self.are_cut(near.host.server_id, far.host.server_id):
                self.loop.after(self.delay_us(near.host.server_id, far.host.server_id), self.hang_up, near)
            return
        if self.flaky and self.rng.random() < self.flaky:
            self.reset(near)
            return
        arrival_us = self.loop.now_us + self.delay_us(near.host.server_id, far.host.server_id)
        far.clear_us = max(far.clear_us, arrival_us)
        far.queue.append((far.clear_us, item))
        self.resume(far)

    def resume(self, end: End) -> None:
        """Let what waits for ``end`` arrive when it is time."""
        if not end.pumping and end.queue:
            end.pumping = True
            self.loop.after(max(0, end.queue[0][0] - self.loop.now_us), self._pump, end)

    def _pump(self, end: End) -> None:
        end.pumping = False
        if not end.queue or not end.is_live or (end.far.host.server_id, end.host.server_id) in self.cuts:
            return
        item = end.queue[0][1]
        if isinstance(item, Stream) and not item.done:
            if not end.far.is_live:
                # The rest will never be sent, nor what waited behind it.
                end.queue = deque(waiting for waiting in end.queue if isinstance(waiting[1], Hangup))
                self.resume(end)
            return
        end.queue.popleft()
        end.host.call(end.incarnation, self._arrived, end, item)
        self.resume(end)

    def _arrived(self, end: End, item: Item) -> None:
        if not end.is_open:
            return
        if isinstance(item, Stream):
            end.host.on_stream(end.number, item)
        elif isinstance(item, Hangup):
            end.is_open = False
            end.host.member.on_link_down(end.number)
        else:
            end.host.on_message(end.number, item)

    def finish(self, near: End, stream: Stream) -> None:
        """The rest of a snapshot, as the tree is by now."""
        if near.is_live:
            stream.chunks += stream.rest
            stream.done = True
            self.resume(near.far)

    def close(self, end: End) -> None:
        """One end closes: the other learns it behind everything sent before."""
        end.is_open = False
        self.send(end, Hangup())

    def hang_up(self, end: End) -> None:
        """Tell one end, and not the other, that the link is gone."""
        keep = self.rng.randint(0, len(end.queue))
        while len(end.queue) > keep:
            end.queue.pop()
        end.host.call(end.incarnation, self._arrived, end, Hangup())

    def reset(self, end: End) -> None:
        """Break a link: one end is told, and the other, too, or it is left to find out."""
        end.is_broken = end.far.is_broken = True
        self.loop.after(0, self.hang_up, end)
        if self.rng.random() < 0.5:
            self.loop.after(0, self.hang_up, end.far)

    def heal(self) -> None:
        self.cuts.clear()
        self.slow.clear()
        self.flaky = 0.0
        for end in self.ends:
            self.resume(end)


class Ports:
    """One process's way to the others. Satisfies ``ottla.keeper.member.Network``."""

    def __init__(self, net: SimNet, host: Host) -> None:
        self._net = net
        self._host = host
        self._incarnation = host.incarnation
        self._ends: dict[int, End] = {}
        self._numbers = 0
        self._attempt = 0
        """The link that is being opened; a new attempt makes an earlier one void."""

    @property
    def ends(self) -> list[End]:
        return [end for end in self._ends.values() if end.is_open]

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def notify(self, server_id: int, notification: Notification) -> None:
        self._net.notify(self._host.server_id, server_id, notification)

    def connect(self, server_id: int) -> None:
        self._attempt = self._number()
        delay_us = self._net.delay_us(self._host.server_id, server_id)
        self._net.loop.after(delay_us, self._connect, server_id, self._attempt, self._net.loop.now_us)

    def _connect(self, target: int, number: int, since_us: int) -> None:
        source = self._host
        if number != self._attempt or source.incarnation != self._incarnation:
            return
        host = self._net.hosts[target]
        if self._net.are_cut(source.server_id, target) or not host.is_powered:
            if self._net.loop.now_us - since_us < CONNECT_TIMEOUT_US:
                self._net.loop.after(CONNECT_RETRY_US, self._connect, target, number, since_us)
                return
        elif host.is_running:
            near = self._ends[number] = End(source, number)
            self._net.join(near, cast("Ports", host.member.network).accept())
            source.call(self._incarnation, source.member.on_link_up, number)
            return
        source.call(self._incarnation, source.member.on_link_down, number)

    def accept(self) -> End:
        number = self._number()
        end = self._ends[number] = End(self._host, number)
        return end

    def send(self, link: int, message: Message) -> None:
        self._host.on_sending(link, message)
        end = self._ends.get(link)
        if end is not None and end.is_open:
            # Through bytes and back: what one process sends is nothing that another could change.
            self._net.send(end, cast("Message", wire.decode(wire.encode(message)[4:])))

    def send_snapshot(self, link: int, zxid: int, tree: DataTree) -> None:
        end = self._ends.get(link)
        if end is None or not end.is_open:
            return
        rng = self._net.rng
        chunks = encode_snapshot(tree, slice_nodes=rng.choice((2, 5, 1000)))
        stream = Stream(zxid, take(chunks, rng.randint(0, 6)), chunks)
        self._host.on_streaming(link, stream)
        self._net.send(end, stream)
        self._net.loop.after(int(400 * MS * rng.random() ** 3), self._net.finish, end, stream)

    def close(self, link: int) -> None:
        end = self._ends.get(link)
        if end is not None and end.is_open:
            self._net.close(end)

    def gone(self, *, power_cut: bool) -> None:
        """The process has ended: its links hang up by themselves, unless nobody is left to say so."""
        for end in self.ends:
            end.is_open = False
            if not power_cut:
                self._net.send(end, Hangup())
