"""The same random steps sent to a real ZooKeeper and to ours, and everything that comes back compared.

Theory of operation. Both sides run one step at a time. After a step that changes something, every session passes a
barrier (a ping; with several servers a sync), so each event a change causes has arrived before the next step: the
order of events and replies within a session is then a fact that can be compared. What cannot be equal is mapped:

- zxids: a one-to-one map that keeps their order, grown as they appear (0 and -1 are themselves);
- times: on each side, a Stat's times are those of the transactions that its zxids name, and near now;
- session ids: session n of one side is session n of the other;
- ports: in the data of /zookeeper/config.

    python -m tests.compat.differential [--seed N] [--requests N] [--servers N] [--shrink] [--self]
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat import rawclient as raw
from tests.compat.rawclient import ClosedError, Connection, Fields, Owner, Session, SilenceError, Time, Value, Zxid
from tests.compat.steps import (
    IDENTITIES,
    SLOTS,
    SUPER_PASSWORD,
    WRITES,
    Connect,
    Drop,
    Generator,
    Request,
    Send,
    Step,
    digest,
)
from tests.peers import Ensemble, OttlaKeepers, RealZooKeeper

TOLERATED: dict[str, str] = {
    "order of children, ephemerals and identities": "unspecified: ZooKeeper iterates over hash sets",
    "a null scheme beside an entry with the same permissions in one ACL": (
        "ZooKeeper fails with -5 where it compares the two, ours with INVALIDACL; nulls are sent alone"
    ),
    "how many U+FFFD stand for half a surrogate pair in a path": "Java writes one, Python three; none is sent",
    "whether DELETE_CONTAINER asks for the permission to delete": (
        "ZooKeeper lets anyone delete an empty container with it; only the session that may do everything sends it"
    ),
    "whether a refused attempt to take over a session ends the session's own connection": (
        "ZooKeeper ends it before it looks at the password, so that anyone could; the steps end it themselves"
    ),
    "which ACL holds for what is sent behind a SET_ACL that is not answered yet": (
        "ZooKeeper goes by the old one, which lets in what was to be kept out; a SET_ACL ends whatever is sent together"
    ),
    "order of the entries that `auth` becomes in an ACL": "unspecified: a connection's identities are a hash set",
    "order of the events of one closed session": "unspecified: its ephemerals come out of a hash set",
}
"""Every difference that the comparison lets pass, and why."""

SETTINGS = {"tickTime": "2000", "maxSessionTimeout": "100000"}
"""A session outlives a run even on a busy machine: expiry would come at another moment on either side."""
SUPER = {"zookeeper.DigestAuthenticationProvider.superDigest": digest(SUPER_PASSWORD)}
PROPERTIES = {
    **SUPER,
    "zookeeper.extendedTypesEnabled": "true",
    "zookeeper.enforceQuota": "true",
    "znode.container.checkIntervalMs": "100000000",
}

SILENCE_S = 60.0
BARRIER_XID = 2**30
NEVER_XID = 2**31 - 1
UNIMPLEMENTED, AUTH_FAILED = -6, -115
KNOWN_REPLIES = frozenset(raw.NAMES[opcode] for opcode in raw.REPLIES)

Observed = dict[int, list[Fields]]
"""What each session received, in order."""


@dataclass
class Slot:
    """One session of one side."""

    connection: Connection | None = None
    session: Session | None = None
    seen: int = 0


class Side:
    """One of the two: runs steps and writes down what it sees."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.name = ensemble.name
        self.ensemble = ensemble
        self.slots = [Slot() for _ in range(SLOTS)]
        self.sessions: list[int] = []
        self.latest = 0
        self.several = len(ensemble.servers) > 1
        lead = ensemble.leader()
        others = [index for index in range(len(ensemble.servers)) if index != lead]
        self.ports = [ensemble.client_ports[index] for index in (lead, *others)]

    def close(self) -> None:
        for slot in self.slots:
            if slot.connection is not None:
                slot.connection.close()

    def run(self, step: Step) -> Observed:
        observed: Observed = {}
        match step:
            case Drop():
                self._drop(step.slot)
            case Connect():
                observed[step.slot] = self._connect(step)
            case Send():
                observed[step.slot] = self._send(step)
        changes = isinstance(step, Connect) or (
            isinstance(step, Send) and any(request.opcode in WRITES for request in step.requests)
        )
        self._barrier(range(SLOTS) if changes else [step.slot], observed)
        return observed

    def _drop(self, number: int) -> None:
        slot = self.slots[number]
        if slot.connection is not None:
            slot.connection.close()
            slot.connection = None

    def _open(self, number: int, **arguments: object) -> list[Fields]:
        """Connects a slot, and takes the session only if the server gives one."""
        slot = self.slots[number]
        self._drop(number)
        try:
            connection = Connection(self.ports[number % len(self.ports)], timeout_s=SILENCE_S)
        except OSError as error:
            logs = "\n".join(server.tail() for server in self.ensemble.servers)
            raise RuntimeError(f"{self.name} serves nobody any more:\n{logs}") from error
        try:
            session = connection.connect(**arguments)  # type: ignore[arg-type]
        except ClosedError:
            connection.close()
            return [(("connect", "closed"),)]
        except SilenceError:
            connection.close()
            return [(("connect", "silence"),)]
        if session.id == 0:
            slot.session = None
            shown: list[Fields] = [(("connect", session.id), ("timeout", session.timeout_ms), ("left", session.left))]
            try:
                connection.receive()
            except ClosedError:
                shown.append((("closed", True),))
            except SilenceError:
                shown.append((("closed", False),))
            connection.close()
            return shown
        slot.connection, slot.session = connection, session
        if session.id not in self.sessions:
            self.sessions.append(session.id)
        return [
            (
                ("connect", Owner(session.id)),
                ("timeout", session.timeout_ms),
                ("version", session.version),
                ("password", len(session.password)),
                ("left", session.left),
            )
        ]

    def _connect(self, step: Connect) -> list[Fields]:
        slot = self.slots[step.slot]
        mine = slot.session
        id_, secret = (mine.id, mine.password) if mine is not None else (0, bytes(16))
        arguments: dict[str, object] = {"timeout_ms": step.timeout_ms, "tail": step.tail}
        match step.how:
            case "again":
                shown = self._open(step.slot, session=id_, password=secret, seen=slot.seen, **arguments)
                return [*shown, *self._identify(step.slot)]
            case "fresh":
                return [*self._open(step.slot, **arguments), *self._identify(step.slot)]
            case "beside":
                return self._beside(step.slot, **arguments)
            case "wrong password":
                return self._beside(step.slot, session=id_, password=b"?" * 16)
            case "empty password":
                return self._beside(step.slot, session=id_, password=b"")
            case "foreign session":
                self._drop((step.slot + 1) % SLOTS)
                other = self.slots[(step.slot + 1) % SLOTS].session
                return self._beside(step.slot, session=other.id if other else 1, password=secret)
            case "unknown session":
                return self._beside(step.slot, session=0x7654321, password=secret)
            case "from the future":
                return self._beside(step.slot, session=id_, password=secret, seen=2**62)
            case _:
                raise ValueError(step.how)

    def _identify(self, number: int) -> list[Fields]:
        connection, shown = self.slots[number].connection, list[Fields]()
        if connection is not None and number in IDENTITIES:
            body = raw.int_(0) + raw.string("digest") + raw.buffer(IDENTITIES[number].encode())
            self._until(number, raw.AUTH, connection.request(raw.AUTH, body), shown)
        return shown

    def _beside(self, number: int, **arguments: object) -> list[Fields]:
        """Tries a connection beside the slot's own. A session it gets is closed: left alone, it would expire later."""
        if "session" in arguments:
            self._drop(number)
        kept = self.slots[number]
        self.slots[number] = Slot()
        try:
            shown = self._open(number, **arguments)
            connection = self.slots[number].connection
            if connection is not None:
                self._until(number, raw.CLOSE_SESSION, connection.request(raw.CLOSE_SESSION), shown)
                self._until(number, 0, NEVER_XID, shown)
            self._drop(number)
        finally:
            self.slots[number] = kept
        return shown

    def _ensure(self, number: int) -> list[Fields]:
        if self.slots[number].connection is not None:
            return []
        shown = self._connect(Connect(number, "again"))
        if self.slots[number].connection is None:
            shown += self._connect(Connect(number, "fresh"))
        return shown

    def _send(self, step: Send) -> list[Fields]:
        observed = self._ensure(step.slot)
        slot = self.slots[step.slot]
        if slot.connection is None:
            return [*observed, (("connection", "none"),)]
        try:
            awaited = [
                (request, slot.connection.request(request.opcode, self._body(request, slot)))
                for request in step.requests
            ]
        except ClosedError:
            self._drop(step.slot)
            return [*observed, (("closed", True),)]
        for request, xid in awaited:
            if not self._until(step.slot, request.opcode, xid, observed):
                break
        if step.requests[-1].opcode == raw.CLOSE_SESSION and slot.connection is not None:
            self._until(step.slot, 0, NEVER_XID, observed)
            slot.session = None
        return observed

    def _body(self, request: Request, slot: Slot) -> bytes:
        return b"".join(part if isinstance(part, bytes) else raw.long_(slot.seen) for part in request.parts)

    def _until(self, number: int, opcode: int, xid: int, observed: list[Fields]) -> bool:
        """Reads a session's frames up to the reply with ``xid``; False if the connection ended before."""
        slot = self.slots[number]
        if slot.connection is None:
            return False
        while True:
            try:
                frame = slot.connection.receive()
            except ClosedError:
                observed.append((("closed", True),))
                self._drop(number)
                return False
            except SilenceError:
                observed.append((("silence", raw.NAMES.get(opcode, opcode)),))
                self._drop(number)
                return False
            got = int.from_bytes(frame[:4], "big", signed=True)
            if got == raw.NOTIFICATION:
                observed.append(raw.decode_event(frame))
                continue
            fields = raw.decode_reply(opcode, frame)
            zxid = dict(fields)["zxid"]
            if isinstance(zxid, Zxid) and zxid.value > 0:
                slot.seen = zxid.value
                self.latest = max(self.latest, zxid.value)
            observed.append((("reply", raw.NAMES.get(opcode, opcode)), *fields))
            if got == xid:
                return True

    def _barrier(self, numbers: Sequence[int], observed: Observed) -> None:
        """Until each session has heard of everything that happened so far.

        A leader may answer a sync before it applied what a follower has already answered, so a session asks again
        until the zxid in the reply is that of the latest change. Which that is, only all replies together tell: the answer
        to a connect request carries no zxid, and a session's first reply may be read before another's shows the newer one.
        """
        opcode, body = (raw.SYNC, raw.string("/")) if self.several else (raw.PING, b"")
        xid = BARRIER_XID if self.several else raw.PING_XID
        for number in numbers:
            frames = observed.setdefault(number, [])
            if _ends(frames):
                self._until(number, 0, NEVER_XID, frames)
        waiting = [number for number in numbers if self.slots[number].connection is not None]
        deadline = time.monotonic() + SILENCE_S
        while waiting:
            for number in waiting:
                connection = self.slots[number].connection
                if connection is not None:
                    with suppress(ClosedError):
                        connection.request(opcode, body, xid=xid)
            answered = [number for number in waiting if self._until(number, opcode, xid, observed[number])]
            waiting = []
            for number in answered:
                zxid = dict(observed[number][-1])["zxid"]
                if isinstance(zxid, Zxid) and zxid.value < self.latest and time.monotonic() < deadline:
                    observed[number].pop()
                    waiting.append(number)


def _ends(frames: list[Fields]) -> bool:
    """Whether the last reply is one after which a server ends the connection, in its own time."""
    if not frames:
        return False
    last = dict(frames[-1])
    unknown = last.get("reply") not in KNOWN_REPLIES
    return last.get("err") == AUTH_FAILED or (last.get("err") == UNIMPLEMENTED and unknown)


class DivergenceError(Exception):
    """The two sides answered differently; ``step`` is the number of the step."""

    step = 0


@dataclass
class Comparison:
    """Holds what two sides said against each other; grows the maps on the way."""

    left: Side
    right: Side
    zxids: dict[int, int] = field(default_factory=dict)
    _left_order: list[int] = field(default_factory=list)
    _times: dict[tuple[int, int], int] = field(default_factory=dict)

    def check(self, step: Step, left: Observed, right: Observed) -> None:
        if _closes(step):
            left, right = _sorted_events(left), _sorted_events(right)
        for number in sorted(left.keys() | right.keys()):
            ours, theirs = left.get(number, []), right.get(number, [])
            for index in range(max(len(ours), len(theirs))):
                if index >= len(ours) or index >= len(theirs):
                    self._differ(step, number, "one side sent more", left, right)
                reason = self._same(ours[index], theirs[index])
                if reason:
                    self._differ(step, number, reason, left, right)

    def _differ(self, step: Step, number: int, reason: str, left: Observed, right: Observed) -> None:
        lines = [f"{step}", f"session {number}: {reason}"]
        for side, observed in ((self.left, left), (self.right, right)):
            for slot, frames in sorted(observed.items()):
                lines += [f"  {side.name:>9} session {slot}: {_shown(frame)}" for frame in frames]
        raise DivergenceError("\n".join(lines))

    def _same(self, left: Value, right: Value, where: str = "") -> str | None:
        if isinstance(left, Zxid) and isinstance(right, Zxid):
            return self._same_zxid(left.value, right.value, where)
        if isinstance(left, Time) and isinstance(right, Time):
            return self._right_time(self.left, left, where) or self._right_time(self.right, right, where)
        if isinstance(left, Owner) and isinstance(right, Owner):
            shown = _session_of(self.left, left.value), _session_of(self.right, right.value)
            return None if shown[0] == shown[1] else f"{where}: {shown[0]} / {shown[1]}"
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return f"{where}: {left} / {right}"
            name = left[0] if left and isinstance(left[0], str) else None
            for one, other in zip(left, right, strict=True):
                if reason := self._same(one, other, f"{where}.{name}" if name else where):
                    return reason
            return None
        if isinstance(left, bytes) and isinstance(right, bytes):
            left, right = _without_ports(self.left, left), _without_ports(self.right, right)
        return None if left == right else f"{where}: {left!r} / {right!r}"

    def _same_zxid(self, left: int, right: int, where: str) -> str | None:
        if left <= 0 or right <= 0:
            return None if left == right else f"{where}: zxid {left} / {right}"
        known = self.zxids.get(left)
        if known is not None:
            return None if known == right else f"{where}: zxid {left:#x} was {known:#x} and is {right:#x}"
        at = bisect_left(self._left_order, left)
        before = self.zxids[self._left_order[at - 1]] if at else 0
        after = self.zxids[self._left_order[at]] if at < len(self._left_order) else 2**63
        if not before < right < after:
            return f"{where}: zxid {left:#x} / {right:#x} breaks the order ({before:#x} .. {after:#x})"
        insort(self._left_order, left)
        self.zxids[left] = right
        return None

    def _right_time(self, side: Side, shown: Time, where: str) -> str | None:
        if shown.value == 0:
            return None if shown.zxid == 0 else f"{where}: {side.name} gives no time to zxid {shown.zxid:#x}"
        known = self._times.setdefault((id(side), shown.zxid), shown.value)
        if known != shown.value and shown.zxid > 0:
            return f"{where}: {side.name} gives zxid {shown.zxid:#x} the times {known} and {shown.value}"
        if abs(shown.value / 1000 - time.time()) > 3600:
            return f"{where}: {side.name} says {shown.value}, far from now"
        return None


def _closes(step: Step) -> bool:
    return isinstance(step, Connect) or (
        isinstance(step, Send) and any(request.opcode == raw.CLOSE_SESSION for request in step.requests)
    )


def _sorted_events(observed: Observed) -> Observed:
    """Events of a closed session's ephemerals in an order of their own, ahead of the replies."""

    def key(frame: Fields) -> tuple[int, str]:
        shown = dict(frame)
        return (0, f"{shown['path']} {shown['type']}") if "event" in shown else (1, "")

    return {number: sorted(frames, key=key) for number, frames in observed.items()}


def _session_of(side: Side, value: int) -> str:
    if value in side.sessions:
        return f"session #{side.sessions.index(value)}"
    return hex(value)


def _without_ports(side: Side, data: bytes) -> bytes:
    if b"server." not in data:
        return data
    ensemble = side.ensemble
    for kind, ports in (
        ("client", ensemble.client_ports),
        ("quorum", ensemble.quorum_ports),
        ("election", ensemble.election_ports),
    ):
        for index, port in enumerate(ports):
            data = data.replace(b":%d" % port, f":{kind}-{index}".encode())
    return data


def _shown(frame: Fields) -> str:
    parts = []
    for name, value in frame:
        if isinstance(value, Zxid):
            parts.append(f"{name}={value.value:#x}")
        else:
            text = repr(value)
            parts.append(f"{name}={text if len(text) < 600 else text[:600] + '…'}")
    return " ".join(parts)


def compare(left: Ensemble, right: Ensemble, steps: Sequence[Step]) -> int:
    """Runs the steps on both; gives the number of requests compared, or raises at the first difference."""
    requests = 0
    sides = (Side(left), Side(right))
    comparison = Comparison(*sides)
    try:
        for index, step in enumerate(steps):
            observed = [side.run(step) for side in sides]
            try:
                comparison.check(step, observed[0], observed[1])
            except DivergenceError as error:
                told = DivergenceError(f"step {index} of {len(steps)}: {error}")
                told.step = index
                raise told from None
            requests += len(step.requests) if isinstance(step, Send) else 1
    finally:
        for side in sides:
            side.close()
    return requests


@contextmanager
def pair(
    servers: int, *, itself: bool = False, properties: Mapping[str, str] = PROPERTIES
) -> Iterator[tuple[Ensemble, Ensemble]]:
    """Two fresh ensembles of the same size: Apache's, and ours (or Apache's again, to test the test)."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        second = RealZooKeeper if itself else OttlaKeepers
        for name in ("left", "right"):
            (folder / name).mkdir()
        left = RealZooKeeper(servers, folder / "left", settings=SETTINGS, properties=properties)
        right = second(servers, folder / "right", settings=SETTINGS, properties=properties)
        yield stack.enter_context(left), stack.enter_context(right)


def diverges(steps: Sequence[Step], servers: int, *, itself: bool = False) -> str | None:
    with pair(servers, itself=itself) as (left, right):
        try:
            compare(left, right, steps)
        except DivergenceError as error:
            return str(error)
    return None


def shrink(steps: list[Step], servers: int, *, budget_s: float = 300) -> list[Step]:
    """Fewer steps that still diverge: chunks are left out, large ones first, as long as the budget lasts."""
    opening, steps = steps[:SLOTS], steps[SLOTS:]
    deadline = time.monotonic() + budget_s
    chunk = max(len(steps) // 2, 1)
    while time.monotonic() < deadline:
        start = 0
        while start < len(steps) and time.monotonic() < deadline:
            shorter = steps[:start] + steps[start + chunk :]
            if diverges([*opening, *shorter], servers):
                steps = shorter
            else:
                start += chunk
        if chunk == 1:
            break
        chunk = max(chunk // 2, 1)
    return [*opening, *steps]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--self", action="store_true", dest="itself", help="Apache's against itself")
    chosen = parser.parse_args()
    # Ended from outside, it still ends the servers it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    steps = Generator(chosen.seed, servers=chosen.servers).steps(chosen.requests)
    started = time.monotonic()
    with pair(chosen.servers, itself=chosen.itself) as (left, right):
        try:
            count = compare(left, right, steps)
        except DivergenceError as error:
            print(f"seed {chosen.seed}, {error}")
            failed = error.step
        else:
            print(f"seed {chosen.seed}: {count} requests alike in {time.monotonic() - started:.1f} s")
            return 0
    if chosen.shrink:
        fewer = shrink(steps[: failed + 1], chosen.servers)
        print("\n".join(f"    {step}" for step in fewer))
        print(diverges(fewer, chosen.servers))
    return 1


if __name__ == "__main__":
    sys.exit(main())
