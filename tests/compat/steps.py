"""What the differential test does: steps, and the seeded generator of random ones.

A step is the same bytes for both servers, but for the values only a server can give (its session ids, passwords and
zxids): those are named in the step and filled in by whoever runs it. So a list of steps can be cut and run again.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.compat import rawclient as raw
from tests.compat.rawclient import acl, bool_, buffer, int_, long_, string, strings, vector

SEEN = "seen"
"""A part of a body: eight bytes, the last zxid the session saw before it lost its connection."""

Part = bytes | str


@dataclass(frozen=True)
class Request:
    opcode: int
    parts: tuple[Part, ...]
    note: str = ""
    unreadable: bool = False
    """ZooKeeper cannot read it inside a multi."""

    def __str__(self) -> str:
        name = raw.NAMES.get(self.opcode, str(self.opcode))
        body = b"".join(part if isinstance(part, bytes) else f"<{part}>".encode() for part in self.parts)
        return f"{name}({self.note or body[:200]!r})"


@dataclass(frozen=True)
class Send:
    """Requests sent at once by one session, replies read after the last is sent."""

    slot: int
    requests: tuple[Request, ...]

    def __str__(self) -> str:
        return f"session {self.slot}: " + ", ".join(str(request) for request in self.requests)


@dataclass(frozen=True)
class Drop:
    """The connection ends, the session stays."""

    slot: int


@dataclass(frozen=True)
class Connect:
    """A connection for a slot.

    ``how``: again (to its session), fresh, beside (a session of its own, closed at once), or a way that must fail.
    """

    slot: int
    how: str = "again"
    timeout_ms: int = 100_000
    tail: bytes = b"\x00"


Step = Send | Drop | Connect

CONNECT_FAILURES = ("wrong password", "empty password", "foreign session", "unknown session", "from the future")

WRITES = frozenset(
    {
        raw.CREATE,
        raw.CREATE2,
        raw.CREATE_CONTAINER,
        raw.CREATE_TTL,
        raw.DELETE,
        raw.DELETE_CONTAINER,
        raw.SET_DATA,
        raw.SET_ACL,
        raw.MULTI,
        raw.RECONFIG,
        raw.CLOSE_SESSION,
        raw.CHECK,
    }
)

USERS = ("alice", "bob", "carol")
SUPER_PASSWORD = "super:stupid"


def digest(credentials: str) -> str:
    """The id of scheme digest for ``user:password``."""
    hashed = base64.b64encode(hashlib.sha1(credentials.encode()).digest()).decode()
    return credentials.split(":", 1)[0] + ":" + hashed


def password(user: str) -> str:
    return f"{user}:secret-of-{user}"


SUPER_SLOT = 4
SLOTS = 5
"""Session 0 has no identity, 1 to 3 are the users, 4 may do everything."""


IDENTITIES = {**{slot: password(user) for slot, user in enumerate(USERS, 1)}, SUPER_SLOT: SUPER_PASSWORD}
"""What each session says of itself whenever it has a new connection, as clients do."""


def opening() -> list[Step]:
    return [Connect(slot, "fresh") for slot in range(SLOTS)]


def auth(scheme: str, data: str) -> Request:
    return Request(raw.AUTH, (int_(0), string(scheme), buffer(data.encode())), f"{scheme} {data}")


ROOTS = ("/a", "/b", "/c", "/q", "/s")
NAMES = ("x", "y", "z")
SPECIAL_PATHS = (
    "/",
    "/zookeeper",
    "/zookeeper/quota",
    "/zookeeper/config",
    "/zookeeper/quota/q",
    "/zookeeper/quota/q/zookeeper_limits",
    "/zookeeper/quota/q/zookeeper_stats",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
)
BAD_PATHS = (
    b"",
    b"a",
    b"/a/",
    b"//",
    b"/a//x",
    b"/a/./x",
    b"/a/../b",
    b"/..",
    b"/.",
    b"/a/x\x00y",
    b"/a/x\x01",
    b"/a/\xff\xfe",
    b"/a/\xc3",
    "/a/\x85".encode(),
    "/a/\ue000".encode(),
    "/a/\uffff".encode(),
    "/a/\U0001f600".encode(),
    b"x/y",
    b"/" + b"n" * 300,
    b"/a/...",
    b"/a/.x",
    b"/a/x y",
    "/a/žluťoučký".encode(),
)
PERMS = (31, 31, 31, 1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 19, 30, 0, 64, -1)
GOOD_IDS: tuple[tuple[str, str], ...] = (
    ("world", "anyone"),
    ("world", "anyone"),
    ("ip", "127.0.0.1"),
    ("ip", "127.0.0.0/8"),
    ("ip", "10.1.0.0/16"),
    ("ip", "::1"),
    *(("digest", digest(password(user))) for user in USERS),
    *(("digest", digest(password(user))) for user in USERS),
    ("auth", ""),
    ("auth", "ignored"),
    ("digest", "nobody:nothing"),
)
ODD_IDS: tuple[tuple[str, str], ...] = (
    *GOOD_IDS,
    ("world", "someone"),
    ("digest", "alice"),
    ("digest", "alice:a:b"),
    ("digest", ""),
    ("ip", "127.0.0.1/33"),
    ("ip", "127.0.0.1/-1"),
    ("ip", "127.0.0.1/0"),
    ("ip", "nonsense"),
    ("ip", ""),
    ("super", "x"),
    ("sasl", "alice"),
    ("x509", "CN=x"),
    ("unknown", "x"),
    ("", ""),
)
NULL_IDS: tuple[tuple[str | None, str | None], ...] = ((None, "anyone"), ("world", None), (None, None))
"""Only ever alone in a list: beside an entry with the same permissions ZooKeeper stumbles over a null."""
DATA = (None, b"", b"x", b"some data", bytes(range(256)), b"d" * 5000)
VERSIONS = (-1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 1, 2, 3, 7, -2)
FLAGS = (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3)
ODD_FLAGS = (4, 5, 6, 7, -1, 99)
LIMITS = (
    b"count=3,bytes=-1",
    b"count=-1,bytes=40",
    b"count=4,bytes=60=;byteHardLimit=50;countHardLimit=5",
    b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=-1",
    b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3",
    b"nonsense",
    b"",
)


NO_ORACLE: dict[str, str] = {
    "anything but statistics in a node zookeeper_stats": "ends a ZooKeeper server (an exception in StatsTrack)",
    "CREATE_TTL with flags of another kind and no possible TTL": "ends a ZooKeeper server (it is checked too late)",
    "a write that cannot be read, to one of several servers": "its CommitProcessor waits forever, and serves nobody",
    "a multi that cannot be read, to one of several servers": "one zxid is given to two transactions",
}
"""What is never sent, because it breaks the ZooKeeper that is to be compared with. The hostile tests send it to ours."""


NO_LIST = "no list"


class Generator:
    """Random steps from a seed. It keeps a rough idea of which nodes exist, so that most requests hit one."""

    def __init__(self, seed: int, *, servers: int = 1) -> None:
        self.random = Random(seed)
        self.several = servers > 1
        self.nodes: list[str] = []
        self.slot = 0
        self.watched: list[list[str]] = [[] for _ in range(SLOTS)]
        self.dropped: set[int] = set()
        self._makers: list[tuple[Callable[[], Request], int]] = [
            (self.create, 24),
            (self.create_ttl, 3),
            (self.create_container, 3),
            (self.delete, 12),
            (self.delete_container, 1),
            (self.exists, 6),
            (self.get_data, 9),
            (self.set_data, 10),
            (self.get_acl, 4),
            (self.set_acl, 5),
            (self.get_children, 4),
            (self.get_children2, 4),
            (self.sync, 1),
            (self.multi, 9),
            (self.multi_read, 4),
            (self.add_watch, 6),
            (self.check_watches, 3),
            (self.remove_watches, 5),
            (self.set_watches, 2),
            (self.authenticate, 2),
            (self.who_am_i, 1),
            (self.get_ephemerals, 2),
            (self.get_all_children_number, 2),
            (self.reconfig, 1),
            (self.quota, 4),
            (self.check, 1),
            (self.ping, 1),
            (self.malformed, 2),
            (self.unknown, 1),
        ]
        self._weights = [weight for _maker, weight in self._makers]
        self._functions = [maker for maker, _weight in self._makers]

    def steps(self, count: int) -> list[Step]:
        """At least ``count`` requests, after the opening."""
        steps = opening()
        requests = 0
        while requests < count:
            step = self.step()
            steps.append(step)
            requests += len(step.requests) if isinstance(step, Send) else 1
        return steps

    def step(self) -> Step:
        draw = self.random.random()
        slot = self.random.choices(range(SLOTS), (3, 3, 3, 2, 3))[0]
        self.slot = slot
        if slot in self.dropped:
            return self.comeback(slot)
        if draw < 0.025:
            self.dropped.add(slot)
            return Drop(slot)
        if draw < 0.035:
            return Connect(slot, self.random.choice(CONNECT_FAILURES))
        if draw < 0.040:
            tail = self.random.choice((b"", b"\x00", b"\x01"))
            return Connect(slot, "beside", self.random.choice((30_000, 0, -1, 1, 4_000, 2**31 - 1)), tail)
        if draw < 0.050:
            return Send(slot, (Request(raw.CLOSE_SESSION, ()),))
        if draw < 0.10:
            return Send(slot, self.burst())
        return Send(slot, (self.request(),))

    def comeback(self, slot: int) -> Step:
        """To its session again, and then its watches again, as clients do."""
        if self.random.random() < 0.5 and slot in self.dropped:
            self.dropped.discard(slot)
            return self.again(slot)
        other = (slot + 1) % SLOTS
        if other in self.dropped:
            self.dropped.discard(slot)
            return self.again(slot)
        self.slot = other
        return Send(other, (self.request(),))

    def again(self, slot: int) -> Connect:
        """To its session, with a timeout of its own each time; none is shorter than a run takes on a busy machine."""
        return Connect(slot, "again", self.random.choice((100_000, 90_000, 70_000, 2**31 - 1)))

    def request(self) -> Request:
        return self.random.choices(self._functions, self._weights)[0]()

    def burst(self) -> tuple[Request, ...]:
        """Sent together. A new ACL is the last of them: what is sent behind it is judged differently by the two."""
        made = [self.tame_request()]
        for _ in range(self.random.randint(1, 5)):
            if made[-1].opcode == raw.SET_ACL:
                break
            made.append(self.tame_request())
        return tuple(made)

    def tame_request(self) -> Request:
        """One after which the connection stays, so that what follows in the same burst is answered."""
        while True:
            made = self.request()
            answered = made.opcode in raw.REPLIES or made.opcode in (raw.DELETE, raw.CHECK_WATCHES, raw.REMOVE_WATCHES)
            if answered and "malformed" not in made.note:
                return made

    # Arguments

    def odd(self, share: float) -> bool:
        return self.random.random() < share

    def path(self) -> str:
        if self.nodes and not self.odd(0.15):
            watched = self.random.choice(self.watched)
            return self.random.choice(watched if watched and self.odd(0.3) else self.nodes)
        return self.random.choice(SPECIAL_PATHS) if self.odd(0.4) else self.new_path()

    def new_path(self) -> str:
        parent = self.random.choice(self.nodes) if self.nodes and not self.odd(0.2) else ""
        if not parent or parent.count("/") > 3:
            return self.random.choice(ROOTS)
        return f"{parent}/{self.random.choice(NAMES)}"

    def believe(self, path: str) -> None:
        """Takes note of a node that probably exists now."""
        parent = path.rpartition("/")[0]
        if path not in self.nodes and (not parent or parent in self.nodes):
            self.nodes.append(path)

    def path_bytes(self) -> tuple[bytes, str]:
        """A path as it is sent: now and then one that is none."""
        if self.odd(0.02):
            bad = self.random.choice(BAD_PATHS)
            return buffer(bad), repr(bad)
        path = self.path()
        return string(path), path

    def data(self, path: str) -> bytes | None:
        if path.endswith("/zookeeper_stats"):
            return self.random.choice((b"count=0,bytes=0", b"count=1,bytes=5"))
        return self.random.choice(DATA[1:] if path.startswith("/zookeeper") else DATA)

    def watch(self, path: str) -> None:
        """Takes note of a watch, among the latest few of the session."""
        self.watched[self.slot] = [*self.watched[self.slot][-9:], path]

    def watched_path(self) -> tuple[bytes, str]:
        mine = self.watched[self.slot]
        if not mine or self.odd(0.3):
            return self.path_bytes()
        path = self.random.choice(mine)
        return string(path), path

    def version(self) -> int:
        return self.random.choice(VERSIONS)

    def acl_list(self) -> tuple[bytes, str]:
        draw = self.random.random()
        if draw < 0.62:
            return raw.OPEN_ACL, "open"
        if draw < 0.63:
            return vector(None), NO_LIST
        if draw < 0.64:
            return vector([]), "empty list"
        if draw < 0.645:
            return vector([acl(31, *self.random.choice(NULL_IDS))]), "a null"
        schemes = ODD_IDS if draw < 0.70 else GOOD_IDS
        chosen = [(self.random.choice(PERMS), *self.random.choice(schemes)) for _ in range(self.random.randint(1, 3))]
        return vector(acl(*entry) for entry in chosen), repr(chosen)

    # Requests

    def create(self) -> Request:
        opcode = self.random.choice((raw.CREATE, raw.CREATE, raw.CREATE2))
        path, (acls, shown), flags = self.new_path(), self.acl_list(), self.random.choice(FLAGS)
        if self.odd(0.05):
            flags = self.random.choice(ODD_FLAGS)
        if self.odd(0.05):
            path = self.random.choice(SPECIAL_PATHS)
        elif self.odd(0.03):
            bad = self.random.choice(BAD_PATHS)
            return Request(
                opcode, (buffer(bad), buffer(b"bad"), acls, int_(flags)), f"{bad!r} flags={flags} {shown}", True
            )
        data = self.data(path)
        if flags in (2, 3, 6):
            path += self.random.choice(("", "-", "/"))
        elif flags in (0, 1, 4):
            self.believe(path)
        note = f"{path} {len(data) if data is not None else None} bytes flags={flags} acl={shown}"
        unreadable = flags not in (0, 1, 2, 3) or shown == NO_LIST
        return Request(opcode, (string(path), buffer(data), acls, int_(flags)), note, unreadable)

    def create_container(self) -> Request:
        path, data, (acls, shown) = self.new_path(), self.random.choice(DATA), self.acl_list()
        flags = self.random.choice((0, 5)) if self.odd(0.2) else 4
        self.believe(path)
        note = f"{path} flags={flags} acl={shown}"
        unreadable = flags != 4 or shown == NO_LIST
        return Request(raw.CREATE_CONTAINER, (string(path), buffer(data), acls, int_(flags)), note, unreadable)

    def create_ttl(self) -> Request:
        path, data, (acls, shown) = self.new_path(), self.random.choice(DATA), self.acl_list()
        flags = self.random.choice((5, 5, 5, 6, 6, 0, 1))
        ttl = (
            self.random.choice((0x10000000000, 0, -1, 2**62))
            if self.odd(0.2)
            else self.random.choice((3_600_000, 0xFFFFFFFFFF))
        )
        if flags == 5:
            self.believe(path)
        elif flags != 6:
            ttl = 3_600_000
        note = f"{path} flags={flags} ttl={ttl} acl={shown}"
        unreadable = flags not in (5, 6) or not 0 < ttl <= 0xFFFFFFFFFF or shown == NO_LIST
        return Request(raw.CREATE_TTL, (string(path), buffer(data), acls, int_(flags), long_(ttl)), note, unreadable)

    def delete(self) -> Request:
        path, shown = self.path_bytes()
        if self.odd(0.15):
            guess = self.random.choice([*ROOTS, *self.nodes])
            shown = guess + self.random.choice(("", "-", "/")) + f"{self.random.randint(0, 6):010d}"
            path = string(shown)
        elif shown in self.nodes and not any(node.startswith(f"{shown}/") for node in self.nodes):
            self.nodes.remove(shown)
        version = self.version()
        return Request(raw.DELETE, (path, int_(version)), f"{shown} version={version}")

    def delete_container(self) -> Request:
        if self.slot != SUPER_SLOT:
            return self.delete()
        path, shown = self.path_bytes()
        return Request(raw.DELETE_CONTAINER, (path,), shown)

    def _watchable(self, opcode: int) -> Request:
        path, shown = self.path_bytes()
        watch = self.odd(0.6)
        if watch and not shown.startswith("b"):
            self.watch(shown)
        return Request(opcode, (path, bool_(watch)), f"{shown} watch={watch}")

    def exists(self) -> Request:
        return self._watchable(raw.EXISTS)

    def get_data(self) -> Request:
        return self._watchable(raw.GET_DATA)

    def get_children(self) -> Request:
        return self._watchable(raw.GET_CHILDREN)

    def get_children2(self) -> Request:
        return self._watchable(raw.GET_CHILDREN2)

    def set_data(self) -> Request:
        (path, shown), version = self.path_bytes(), self.version()
        data = self.data(shown)
        return Request(raw.SET_DATA, (path, buffer(data), int_(version)), f"{shown} version={version}")

    def get_acl(self) -> Request:
        path, shown = self.path_bytes()
        return Request(raw.GET_ACL, (path,), shown)

    def set_acl(self) -> Request:
        (path, shown), (acls, acl_shown), version = self.path_bytes(), self.acl_list(), self.version()
        return Request(raw.SET_ACL, (path, acls, int_(version)), f"{shown} {acl_shown} version={version}")

    def sync(self) -> Request:
        path, shown = self.path_bytes()
        return Request(raw.SYNC, (path,), shown)

    def check(self) -> Request:
        (path, shown), version = self.path_bytes(), self.version()
        return Request(raw.CHECK, (path, int_(version)), f"{shown} version={version} malformed outside a multi")

    def ping(self) -> Request:
        return Request(raw.PING, ())

    def multi(self) -> Request:
        makers = (self.create, self.create, self.delete, self.set_data, self.check, self.create_ttl)
        count = self.random.choice((0, 1, 1, 2, 2, 3, 3, 4, 6))
        made = [self.random.choice((*makers, self.create_container))() for _ in range(count)]
        if self.several:
            made = [request for request in made if not request.unreadable]
        elif self.random.random() < 0.04:
            made.append(self.random.choice((self.get_data, self.set_acl, self.get_children, self.multi))())
        return self._transaction(raw.MULTI, made)

    def multi_read(self) -> Request:
        count = self.random.randint(0, 4)
        made = [self.random.choice((self.get_data, self.get_children))() for _ in range(count)]
        if self.random.random() < 0.08:
            made.append(self.random.choice((self.set_data, self.exists))())
        return self._transaction(raw.MULTI_READ, made)

    def _transaction(self, opcode: int, made: list[Request]) -> Request:
        parts: list[Part] = []
        for request in made:
            parts += [int_(request.opcode), bool_(False), int_(-1), *request.parts]
        parts += [int_(-1), bool_(True), int_(-1)]
        allowed = {
            raw.MULTI: {
                raw.CREATE,
                raw.CREATE2,
                raw.CREATE_CONTAINER,
                raw.CREATE_TTL,
                raw.DELETE,
                raw.SET_DATA,
                raw.CHECK,
            },
            raw.MULTI_READ: {raw.GET_DATA, raw.GET_CHILDREN},
        }[opcode]
        odd = "" if all(request.opcode in allowed for request in made) else " malformed"
        return Request(opcode, tuple(parts), "[" + "; ".join(str(request) for request in made) + "]" + odd)

    def add_watch(self) -> Request:
        path, shown = self.path_bytes()
        if not shown.startswith("b"):
            self.watch(shown)
        mode = self.random.choice((2, -1)) if self.odd(0.1) else self.random.choice((0, 1))
        return Request(raw.ADD_WATCH, (path, int_(mode)), f"{shown} mode={mode}")

    def check_watches(self) -> Request:
        path, shown = self.watched_path()
        kind = self.random.choice((1, 2, 3, 3, 4, 5, 1, 2, 3, 4, 5, 0, 6))
        return Request(raw.CHECK_WATCHES, (path, int_(kind)), f"{shown} type={kind}")

    def remove_watches(self) -> Request:
        path, shown = self.watched_path()
        kind = self.random.choice((1, 2, 3, 3, 4, 5, 1, 2, 3, 4, 5, 0, 6))
        return Request(raw.REMOVE_WATCHES, (path, int_(kind)), f"{shown} type={kind}")

    def set_watches(self) -> Request:
        both = self.random.random() < 0.6
        lists = [[self.path() for _ in range(self.random.randint(0, 3))] for _ in range(5 if both else 3)]
        since: Part = SEEN if self.random.random() < 0.8 else long_(self.random.choice((0, 2**62)))
        opcode = raw.SET_WATCHES2 if both else raw.SET_WATCHES
        return Request(opcode, (since, *(strings(paths) for paths in lists)), f"since {since!r} {lists}")

    def authenticate(self) -> Request:
        user = self.random.choice(USERS)
        return self.random.choice(
            (
                auth("digest", password(user)),
                auth("digest", password(user)),
                auth("digest", f"{user}:wrong"),
                auth("digest", user),
                auth("digest", ""),
                auth("digest", "super:wrong"),
                auth("ip", "anything"),
                auth("world", "anyone"),
                auth("sasl", user),
                auth("unknown", "x"),
                auth("", ""),
            )
        )

    def who_am_i(self) -> Request:
        return Request(raw.WHO_AM_I, ())

    def get_ephemerals(self) -> Request:
        prefix = self.random.choice(("/", "/a", "/a/x", "", "/b/", "nonsense", None))
        return Request(raw.GET_EPHEMERALS, (string(prefix),), repr(prefix))

    def get_all_children_number(self) -> Request:
        path, shown = self.path_bytes()
        return Request(raw.GET_ALL_CHILDREN_NUMBER, (path,), shown)

    def reconfig(self) -> Request:
        joining = self.random.choice((None, "server.9=127.0.0.1:1:2;3"))
        parts = (string(joining), string(None), string(None), long_(-1))
        return Request(raw.RECONFIG, parts, f"joining={joining}")

    def quota(self) -> Request:
        """Quota nodes, and enough inside /q and /a for them to count."""
        root = self.random.choice(("q", "a"))
        home = f"/zookeeper/quota/{root}"
        limits = self.random.choice(LIMITS)
        kind = self.random.random()
        if kind < 0.15:
            return Request(raw.CREATE, (string(home), buffer(b""), raw.OPEN_ACL, int_(0)), home)
        if kind < 0.3:
            path = f"{home}/zookeeper_limits"
            return Request(raw.CREATE, (string(path), buffer(limits), raw.OPEN_ACL, int_(0)), f"{path} {limits!r}")
        if kind < 0.45:
            path = f"{home}/zookeeper_stats"
            return Request(raw.CREATE, (string(path), buffer(b"count=0,bytes=0"), raw.OPEN_ACL, int_(0)), path)
        if kind < 0.6:
            path = f"{home}/zookeeper_limits"
            return Request(raw.SET_DATA, (string(path), buffer(limits), int_(-1)), f"{path} {limits!r}")
        if kind < 0.8:
            path = f"{home}/zookeeper_stats"
            return Request(raw.GET_DATA, (string(path), bool_(True)), path)
        path = f"/{root}/{self.random.choice(NAMES)}"
        return Request(raw.CREATE, (string(path), buffer(b"q" * 10), raw.OPEN_ACL, int_(0)), path)

    def malformed(self) -> Request:
        """A request that ends too early, or whose lengths are impossible."""
        made = self.request()
        while not made.parts or made.opcode in (raw.AUTH, raw.SASL) or (self.several and made.opcode in WRITES):
            made = self.request()
        body = b"".join(part if isinstance(part, bytes) else long_(0) for part in made.parts)
        kind = self.random.randint(0, 3)
        if kind == 0:
            body = body[: self.random.randrange(len(body))]
        elif kind == 1:
            body = int_(-1) + body[4:]
        elif kind == 2:
            body = int_(self.random.choice((-2, 2**31 - 1, 10_000_000))) + body[4:]
        else:
            body += b"more than was asked for"
        return Request(made.opcode, (body,), f"malformed {kind}: {made.note}")

    def unknown(self) -> Request:
        opcode = self.random.choice((10, 23, 50, 99, 102, 108, 1000, -2, -12, 2**31 - 1))
        return Request(opcode, (string("/a"),), "unknown")
