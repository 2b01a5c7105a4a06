"""Keepers in memory, and the same life that ``tests.compat.capture`` gave to a real ZooKeeper.

Everything happens at once and in order: messages arrive when ``settle`` is called, syncs of the log are done then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from ottla.base.clock import ManualClock
from ottla.keeper.config import KeeperConfig
from ottla.keeper.member import Member, Recovered
from ottla.keeper.messages import Message
from ottla.keeper.monitored import mode_of
from ottla.keeper.proto.jute import INT, put_boolean, put_buffer, put_int, put_long, put_string
from ottla.keeper.proto.opcodes import CreateMode, OpCode
from ottla.keeper.proto.records import OPEN_ACL_UNSAFE, REQUEST_HEADER, put_acls
from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.history import Recent
from ottla.keeper.quorum.messages import Notification
from ottla.keeper.server.clients import Client
from ottla.keeper.server.sessions import password_of
from ottla.keeper.server.tree import DataTree
from ottla.keeper.shell import options_of

CAPTURES = Path(__file__).parents[2] / "compat"
ALL_WORDS = [
    "ruok",
    "srvr",
    "stat",
    "mntr",
    "cons",
    "conf",
    "envi",
    "dump",
    "wchs",
    "wchc",
    "wchp",
    "isro",
    "crst",
    "srst",
]


@dataclass
class Server:
    """What ``Monitored`` asks for."""

    config: KeeperConfig
    clock: ManualClock
    member: Member = field(init=False)
    started_ms: int = 0
    connections: int = 1
    rejected: int = 0

    @property
    def client_port(self) -> int:
        return self.config.client_port


class Disk:
    def __init__(self, ensemble: Ensemble, server_id: int) -> None:
        self._ensemble = ensemble
        self._server_id = server_id

    def write_accepted_epoch(self, epoch: int) -> None: ...
    def write_current_epoch(self, epoch: int) -> None: ...
    def append(self, entries: list[Entry]) -> None:
        self._ensemble.later(lambda: self._ensemble.member(self._server_id).on_synced(entries[-1].zxid))

    def truncate_to(self, zxid: int) -> tuple[int, DataTree]:
        raise NotImplementedError

    def maybe_snapshot(self, tree: DataTree, applied: int) -> None: ...


class Network:
    def __init__(self, ensemble: Ensemble, server_id: int) -> None:
        self._ensemble = ensemble
        self._server_id = server_id
        self.links: dict[int, int] = {}
        """Who is at the other end, where the link has the same number."""

    def notify(self, server_id: int, notification: Notification) -> None:
        if server_id in self._ensemble.servers:
            self._ensemble.later(lambda: self._ensemble.member(server_id).on_notification(notification))

    def connect(self, server_id: int) -> None:
        link = self._ensemble.new_link()
        self.links[link] = server_id
        self._ensemble.networks[server_id].links[link] = self._server_id
        self._ensemble.later(lambda: self._ensemble.member(self._server_id).on_link_up(link))

    def send(self, link: int, message: Message) -> None:
        if link in self.links:
            self._ensemble.later(lambda: self._ensemble.member(self.links[link]).on_message(link, message))

    def send_snapshot(self, link: int, zxid: int, tree: DataTree) -> None:
        copy = deepcopy(tree)
        self._ensemble.later(lambda: self._ensemble.member(self.links[link]).on_snapshot(link, zxid, copy))

    def close(self, link: int) -> None:
        server_id = self.links.pop(link, None)
        if server_id in self._ensemble.servers:
            self._ensemble.later(lambda: self._ensemble.member(server_id).on_link_down(link))


class Ensemble:
    """Voters 1 to ``voters``, then observers; a lone server if there is but one."""

    def __init__(
        self, folder: Path, voters: int = 1, observers: int = 0, settings: Mapping[str, str] | None = None
    ) -> None:
        self.clock = ManualClock(monotonic=1000.0)
        self.servers: dict[int, Server] = {}
        self.networks: dict[int, Network] = {}
        self._later: deque[Callable[[], None]] = deque()
        self._links = 0
        ids = range(1, voters + observers + 1)
        for server_id in ids:
            self.servers[server_id] = Server(_config(folder, server_id, voters, len(ids), settings or {}), self.clock)
            self.networks[server_id] = Network(self, server_id)
        for server_id, server in self.servers.items():
            server.started_ms = int(self.clock.monotonic() * 1000)
            server.member = Member(
                options_of(server.config),
                Recovered(DataTree(), Recent(0), 0, 0),
                Disk(self, server_id),
                self.networks[server_id],
                self.clock,
                wake=lambda server=server: self.later(server.member.flush),
            )
        self.run(0.5)

    def member(self, server_id: int) -> Member:
        return self.servers[server_id].member

    def new_link(self) -> int:
        self._links += 1
        return self._links

    def later(self, call: Callable[[], None]) -> None:
        self._later.append(call)

    def settle(self) -> None:
        while self._later:
            self._later.popleft()()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.clock.advance(0.05)
            for server in self.servers.values():
                server.member.tick()
            self.settle()

    def stop(self, server_id: int) -> None:
        """The server is gone, and its links break."""
        del self.servers[server_id]
        for link, other in self.networks[server_id].links.items():
            if other in self.servers and link in self.networks[other].links:
                del self.networks[other].links[link]
                self.member(other).on_link_down(link)
        self.settle()

    def of_mode(self, mode: str) -> Server:
        """The last of them, as the captures have it."""
        return [server for server in self.servers.values() if mode_of(server) == mode][-1]


def _config(folder: Path, server_id: int, voters: int, count: int, settings: Mapping[str, str]) -> KeeperConfig:
    values = {
        "dataDir": str(folder / str(server_id)),
        "clientPort": str(13000 + server_id),
        "tickTime": "500",
        "initLimit": "20",
        "syncLimit": "10",
        "maxClientCnxns": "0",
        "4lw.commands.whitelist": "*",
    }
    (folder / str(server_id)).mkdir(exist_ok=True)
    if count > 1:
        (folder / str(server_id) / "myid").write_text(str(server_id))
        for other in range(1, count + 1):
            kind = "participant" if other <= voters else "observer"
            values[f"server.{other}"] = f"127.0.0.1:{14000 + other}:{15000 + other}:{kind}"
    return KeeperConfig.from_properties(values | dict(settings))


class Outlet:
    """A client's end of a connection."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.is_open = True

    def write(self, data: bytes) -> None:
        self.received.append(data)

    def close(self) -> None:
        self.is_open = False

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Person:
    """A client that waits for every answer."""

    _port = 47000

    def __init__(
        self, ensemble: Ensemble, server: Server, *, timeout_ms: int = 20_000, back: Client | None = None
    ) -> None:
        """``back``: who it was on another connection, whose session it takes up again."""
        Person._port += 1
        self.ensemble = ensemble
        self.frontend = server.member.frontend
        self.outlet = Outlet()
        self.client: Client = self.frontend.connected(self.outlet, "127.0.0.1", Person._port)
        self._xid = 0
        hello = bytearray()
        put_int(hello, 0)
        put_long(hello, 0)
        put_int(hello, timeout_ms)
        put_long(hello, back.session_id if back is not None else 0)
        put_buffer(hello, password_of(back.session_id) if back is not None else bytes(16))
        put_boolean(hello, value=True)
        self._say(bytes(hello))

    def _say(self, frame: bytes) -> None:
        self.ensemble.clock.advance(0.002)
        self.frontend.on_frame(self.client, frame)
        self.ensemble.clock.advance(0.001)
        self.ensemble.settle()

    def ask(self, type_: int, body: bytes | bytearray = b"") -> int:
        """Send a request; the error code of its answer."""
        self._xid += 1
        self._say(REQUEST_HEADER.pack(self._xid, type_) + bytes(body))
        code: int = INT.unpack_from(self.outlet.received[-1], 16)[0]
        return code

    def create(self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> int:
        body = bytearray()
        put_string(body, path)
        put_buffer(body, data)
        put_acls(body, OPEN_ACL_UNSAFE)
        put_int(body, mode)
        return self.ask(OpCode.CREATE_CONTAINER if mode is CreateMode.CONTAINER else OpCode.CREATE, body)

    def set(self, path: str, data: bytes) -> int:
        body = bytearray()
        put_string(body, path)
        put_buffer(body, data)
        put_int(body, -1)
        return self.ask(OpCode.SET_DATA, body)

    def read(self, type_: OpCode, path: str, *, watch: bool = True) -> int:
        body = bytearray()
        put_string(body, path)
        if type_ != OpCode.SYNC:
            put_boolean(body, watch)
        return self.ask(type_, body)


def live(person: Person, number: int) -> None:
    """What ``tests.compat.capture.some_life`` does at one server."""
    base = f"/life-{number}"
    assert person.create(base, b"some data") == 0
    assert person.create(f"{base}/ephemeral", b"", CreateMode.EPHEMERAL) == 0
    for _ in range(5):
        assert person.create(f"{base}/n-", b"x" * 100, CreateMode.PERSISTENT_SEQUENTIAL) == 0
        assert person.set(base, b"more data") == 0
    assert person.read(OpCode.GET_DATA, base) == 0
    assert person.read(OpCode.GET_DATA, f"{base}/ephemeral") == 0
    assert person.read(OpCode.GET_CHILDREN, base) == 0
    assert person.read(OpCode.EXISTS, f"{base}/missing") != 0
    assert person.read(OpCode.SYNC, base) == 0


def populated(folder: Path, mode: str) -> tuple[Ensemble, Server]:
    """An ensemble that has lived, and its server of that mode."""
    ensemble = Ensemble(folder) if mode == "standalone" else Ensemble(folder, 3, 1)
    for number, server in enumerate(ensemble.servers.values()):
        server.connections += 1
        live(Person(ensemble, server), number)
    return ensemble, ensemble.of_mode(mode)
