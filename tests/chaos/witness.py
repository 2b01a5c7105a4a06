"""The witness: decides from what clients saw and what servers kept whether an ensemble did what it promises.

ZooKeeper numbers every write, so no search for an order is needed: the logs name it, and all that is left is to check
that it explains everything. Outcomes that no client learned are taken from the log, too. In one pass each:

    Z4  the servers' logs agree and have no holes; each tree is what its log makes of an empty one
    Z2  every acknowledged write is in them, on every server
    Z1  replayed on a dictionary, each write gives the answer its client got, and versions, czxid and mzxid follow;
        a write that was answered before another was sent comes before it
    Z5  answers come in the order of the requests, a session's writes take effect in the order they were sent, and on
        one connection none takes effect behind one that does not
    Z6  no session sees an older state after a newer one
    Z7  a read shows a state its session could see, one behind a sync nothing older than what was acknowledged before;
        but a leader that does not know yet that it is none answers by its own lights, as ZooKeeper's does
    Z8  a watch fires once, for the first change behind the state it was set on, before that change can be seen, and
        a recursive one for every change in order (``watching``)
    Z9  a session ends by one transaction, with all its ephemerals and no others, not before its time, and nothing
        of it follows

``check`` returns what is wrong, each finding with the guarantee it breaks; an empty list is a clean bill.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import CreateMode, OpCode
from ottla.keeper.proto.records import Stat
from ottla.keeper.proto.txns import CreateSessionTxn, CreateTxn, DeleteTxn, ErrorTxn, MultiTxn, SetDataTxn, Txn, TxnBody
from ottla.keeper.store import epoch_of, follows
from tests.chaos.history import Event, Op, operations
from tests.chaos.model import Applied, Change, Effect, Model, parent_of, text
from tests.chaos.remains import Remains
from tests.chaos.watching import check_watches

WRITES = frozenset({"create", "delete", "set", "multi", "close"})
READS = frozenset({"get", "exists", "children"})
SETTLED_ELSEWHERE = frozenset({ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED})
"""Errors that say something about the session, not about the tree."""
EPOCH_MAX = COUNTER = (1 << 32) - 1


class Rules(NamedTuple):
    """How much to expect: ``OTTLA`` of ours, ``ZOOKEEPER`` of Apache's server."""

    exact: bool = True
    """An answer's zxid is that of the write, or of the very state that was read; else it may be a later one. And logs
    are the same byte for byte; else multis without effect may differ: ZooKeeper's leader writes them in another way."""
    leftovers: bool = False
    """A server that was sent a snapshot may keep the log it had before; it counts for nothing."""
    early_ms: int = 0
    """How much before its time a session may end: what a dead follower did not pass on of its clients' pings."""


OTTLA = Rules()
ZOOKEEPER = Rules(exact=False, leftovers=True)


def check(events: Sequence[Event], servers: Sequence[Remains], rules: Rules = OTTLA) -> list[str]:
    ops = operations(events)
    if rules.leftovers:
        servers = [_without_leftovers(server) for server in servers]
    log = _merge(servers)
    by_request = _by_request(log.values())
    writes = [(op, by_request.get((op.session, op.xid), [])) for op in ops if op.f in WRITES]
    bound = {op.op_id: txns[0] for op, txns in writes if txns}
    replay = _Replay(ops, bound, rules)
    findings = [
        *_check_servers(servers, log, ops, bound, rules),
        *_check_writes(writes),
        *replay.run(log, servers),
        *_check_real_time(ops, bound),
        *_check_sessions(ops, bound),
        *_check_expiry(events, log, ops, rules),
        *check_watches(events, ops, replay.seen, replay.changes),
    ]
    return list(dict.fromkeys(findings))


def _merge(servers: Iterable[Remains]) -> dict[int, Txn]:
    """Every transaction that any server holds, in order."""
    found = {txn.zxid: txn for server in servers for txn in server.txns}
    # Where every server has been sent a snapshot, nobody knows how the tree began, and nothing can be replayed.
    assert not found or min(found) & COUNTER == 1, "no server has kept the beginning of the log"
    return dict(sorted(found.items()))


def _without_leftovers(server: Remains) -> Remains:
    """Only the end of its log, without a gap."""
    gaps = [
        at for at, (before, after) in enumerate(pairwise(server.txns), 1) if not follows(after.zxid, after=before.zxid)
    ]
    return server._replace(txns=server.txns[gaps[-1] :]) if gaps else server


def _by_request(txns: Iterable[Txn]) -> dict[tuple[int, int], list[Txn]]:
    found: dict[tuple[int, int], list[Txn]] = defaultdict(list)
    for txn in txns:
        if txn.cxid:
            found[txn.session_id, txn.cxid].append(txn)
    return found


def has_effect(txn: Txn) -> bool:
    body = txn.body
    if isinstance(body, MultiTxn):
        return not any(isinstance(sub, ErrorTxn) for _, sub in body.txns)
    return not isinstance(body, ErrorTxn)


# Z2 and Z4: what the servers hold.


def _check_servers(
    servers: Sequence[Remains], log: dict[int, Txn], ops: Iterable[Op], bound: dict[int, Txn], rules: Rules
) -> Iterator[str]:
    # What a read has shown counts as much as what a write was told.
    acked = [(bound[op.op_id].zxid if op.op_id in bound else op.zxid, op) for op in ops if op.phase == "ok"]
    newest = max(acked, key=lambda pair: pair[0], default=None)
    for before_zxid, after_zxid in pairwise(log):
        if not follows(after_zxid, after=before_zxid):
            yield f"Z4: no server has what lies between 0x{before_zxid:x} and 0x{after_zxid:x}"
    for server in servers:
        for before, after in pairwise(server.txns):
            if not follows(after.zxid, after=before.zxid):
                yield f"Z4: server {server.name} has 0x{after.zxid:x} right behind 0x{before.zxid:x}"
        for txn in server.txns:
            if txn != log[txn.zxid] and (rules.exact or has_effect(txn) or has_effect(log[txn.zxid])):
                yield f"Z4: server {server.name} has {txn}, another {log[txn.zxid]}"
        if newest is not None and server.last_zxid < newest[0]:
            missing = sum(zxid > server.last_zxid for zxid, _ in acked)
            yield f"Z2: server {server.name} ends at 0x{server.last_zxid:x} and lacks {missing} answers up to {newest[1]}"


def _check_writes(writes: Iterable[tuple[Op, list[Txn]]]) -> Iterator[str]:
    for op, txns in writes:
        effective = [txn for txn in txns if has_effect(txn)]
        if op.phase == "ok" and not effective:
            yield f"Z2: lost: {op}"
        elif op.phase == "fail" and effective:
            yield f"Z1: refused, yet done as 0x{effective[0].zxid:x}: {op}"
        if len(txns) > 1:
            yield f"Z1: done {len(txns)} times, as {[hex(txn.zxid) for txn in txns]}: {op}"


# Z1 and Z7: every answer against the state it came from.


class _Reading(NamedTuple):
    op: Op
    low: int
    high: int


class _Replay:
    """One pass over the log. Reads are open, by path, from the oldest state they may show to the newest."""

    def __init__(self, ops: Sequence[Op], bound: dict[int, Txn], rules: Rules) -> None:
        self.changes: list[tuple[int, Change]] = []
        self.seen: dict[int, int] = {}
        """For each read, the zxid of the state it showed; of the last, if it may have been one of several."""
        self._model = Model()
        self._zxid = 0
        self._rules = rules
        self._writes = {bound[op.op_id].zxid: op for op in ops if op.op_id in bound}
        self._reads = sorted(_readings(ops, bound, rules), key=lambda reading: reading.low, reverse=True)
        self._open: dict[str, list[_Reading]] = defaultdict(list)

    def run(self, log: dict[int, Txn], servers: Iterable[Remains]) -> Iterator[str]:
        ends: dict[int, list[Remains]] = defaultdict(list)
        for server in servers:
            ends[server.last_zxid].append(server)
        for zxid, txn in log.items():
            yield from self._open_reads(zxid)
            op = self._writes.get(zxid)
            if op is not None:
                yield from self._check_refusal(op, txn)
            versions = self._versions(op)
            applied = self._model.apply(txn)
            yield from (f"Z1: 0x{zxid:x}: {problem}" for problem in applied.problems)
            if op is not None and has_effect(txn):
                yield from self._check_effect(op, txn, applied, versions)
            self._zxid = zxid
            self.changes += ((zxid, change) for change in applied.changes)
            for path in {path for change in applied.changes for path in (change.path, parent_of(change.path))}:
                for reading in self._open.get(path, ()):
                    self._look(reading.op)
            for server in ends[zxid]:
                yield from self._check_tree(server)
        yield from self._open_reads(1 << 63)

    def _open_reads(self, zxid: int) -> Iterator[str]:
        """Look at the reads whose oldest state is the present one: the next has number ``zxid``."""
        while self._reads and self._reads[-1].low < zxid:
            reading = self._reads.pop()
            if reading.low > reading.high:
                yield f"Z7: shows 0x{reading.high:x} where 0x{reading.low:x} was the least: {reading.op}"
                continue
            self._open[reading.op.args["path"]].append(reading)
            self._look(reading.op)
        for readings in self._open.values():
            for reading in [reading for reading in readings if reading.high < zxid]:
                readings.remove(reading)
                if reading.op.op_id not in self.seen:
                    yield f"Z7: no state from 0x{reading.low:x} to 0x{reading.high:x} is like that: {reading.op}"

    def _look(self, op: Op) -> None:
        """Does the read show the present state?"""
        node = self._model.nodes.get(op.args["path"])
        result = op.result
        if node is None or op.phase == "fail":
            matches = node is None and op.err == ErrorCode.NO_NODE
        else:
            matches = (
                result.get("stat", list(node.stat)) == list(node.stat)
                and result.get("data", node.data) == node.data
                and ("children" not in result or set(result["children"]) == node.children)
            )
        if matches:
            self.seen[op.op_id] = self._zxid

    def _check_refusal(self, op: Op, txn: Txn) -> Iterator[str]:
        if op.phase == "fail" and op.err in SETTLED_ELSEWHERE:
            return
        err = self._model.refusal(op.f, op.args)
        if not has_effect(txn) and not err and not _about_session(txn):
            yield f"Z1: 0x{txn.zxid:x} refuses what nothing stood against: {op}"
        elif op.answered and op.err != err:
            yield f"Z1: 0x{txn.zxid:x} should have been answered with {err.name}: {op}"

    def _versions(self, op: Op | None) -> dict[str, int]:
        """How many children were made so far below the parents of what ``op`` creates."""
        if op is None or op.f not in ("create", "multi"):
            return {}
        parents = {parent_of(part["path"]) for part in op.args.get("ops", [op.args])}
        return {path: self._model.nodes[path].creates for path in parents if path in self._model.nodes}

    def _check_effect(self, op: Op, txn: Txn, applied: Applied, versions: dict[str, int]) -> Iterator[str]:
        if op.phase == "ok" and op.zxid != txn.zxid and (self._rules.exact or op.zxid < txn.zxid):
            yield f"Z1: answered with 0x{op.zxid:x}, done as 0x{txn.zxid:x}: {op}"
        if op.f == "close":
            return
        asked = op.args["ops"] if op.f == "multi" else [{"f": op.f, **op.args}]
        bodies = [sub for _, sub in txn.body.txns] if isinstance(txn.body, MultiTxn) else [txn.body]
        told = op.result.get("results") if op.f == "multi" else [op.result]
        for part, body in zip(asked, bodies, strict=True):
            if not _is_what_was_asked(part, body, versions):
                yield f"Z1: 0x{txn.zxid:x} is {body}: {op}"
        if op.phase == "ok" and told is not None:
            for effect, result in zip(applied.effects, told, strict=False):
                yield from (f"Z1: {wrong}: {op}" for wrong in _differences(effect, result))

    def _check_tree(self, server: Remains) -> Iterator[str]:
        if server.nodes is None:
            return
        ours = {path: (node.data, node.stat) for path, node in self._model.nodes.items() if _is_shared(path)}
        theirs = {path: node for path, node in server.nodes.items() if _is_shared(path)}
        for path in sorted(ours.keys() | theirs.keys()):
            if ours.get(path) != theirs.get(path):
                yield f"Z4: server {server.name}: {path} is {theirs.get(path)}, its log makes {ours.get(path)}"


def _is_shared(path: str) -> bool:
    return path != "/" and not path.startswith("/zookeeper")


def _about_session(txn: Txn) -> bool:
    bodies = [body for _, body in txn.body.txns] if isinstance(txn.body, MultiTxn) else [txn.body]
    return any(isinstance(body, ErrorTxn) and body.err in SETTLED_ELSEWHERE for body in bodies)


def _is_what_was_asked(asked: dict[str, object], body: TxnBody, versions: dict[str, int]) -> bool:
    path = str(asked["path"])
    match asked["f"], body:
        case "create", CreateTxn():
            mode = CreateMode(int(str(asked["flags"])))
            if mode.is_sequential:
                path += f"{versions[parent_of(path)]:010d}"
            return (path, asked["data"], mode.is_ephemeral) == (body.path, text(body.data), body.ephemeral)
        case "set", SetDataTxn():
            return (path, asked["data"]) == (body.path, text(body.data))
        case "delete", DeleteTxn():
            return path == body.path
        case "check", _:
            return True
        case _:
            return False


def _differences(effect: Effect, result: dict[str, object]) -> Iterator[str]:
    if "path" in result and result["path"] != effect.path:
        yield f"answered with path {result['path']}, created {effect.path}"
    if "stat" in result and effect.stat is not None and result["stat"] != list(effect.stat):
        yield f"answered with {Stat(*_ints(result['stat']))}, made {effect.stat}"


def _ints(value: object) -> Sequence[int]:
    assert isinstance(value, list)
    return value


def _readings(ops: Sequence[Op], bound: dict[int, Txn], rules: Rules) -> Iterator[_Reading]:
    """Reads with the range of states they may show: what the session has seen, and what a sync entitles it to."""
    acked = _Newest((op.returned_ns, bound[op.op_id].zxid) for op in ops if op.phase == "ok" and op.op_id in bound)
    before = {
        op.op_id: acked.before(op.invoked_ns, epoch_max=epoch_of(op.zxid))
        for op in ops
        if op.f == "sync" and op.phase == "ok"
    }
    low: dict[str, int] = defaultdict(int)
    for op in sorted((op for op in ops if op.answered), key=lambda op: op.position):
        if op.f in READS and (op.phase == "ok" or op.err == ErrorCode.NO_NODE):
            oldest = low[op.proc]
            yield _Reading(op, max(op.zxid, oldest) if rules.exact else oldest, op.zxid)
        if op.f == "sync" and op.phase == "ok":
            low[op.proc] = max(low[op.proc], before[op.op_id])
        low[op.proc] = max(low[op.proc], op.zxid)


class _Newest:
    """The highest zxid answered before a time; times are asked for in rising order."""

    def __init__(self, answered: Iterable[tuple[int, int]]) -> None:
        self._answered = sorted(answered, reverse=True)
        self._newest: dict[int, int] = {}  # by epoch

    def before(self, t_ns: int, *, epoch_max: int = EPOCH_MAX) -> int:
        while self._answered and self._answered[-1][0] < t_ns:
            zxid = self._answered.pop()[1]
            self._newest[epoch_of(zxid)] = max(self._newest.get(epoch_of(zxid), 0), zxid)
        return max((zxid for epoch, zxid in self._newest.items() if epoch <= epoch_max), default=0)


def _check_real_time(ops: Sequence[Op], bound: dict[int, Txn]) -> Iterator[str]:
    numbered = [(op, bound[op.op_id].zxid) for op in ops if op.op_id in bound]
    answered = _Newest((op.returned_ns, zxid) for op, zxid in numbered if op.answered)
    for op, zxid in sorted(numbered, key=lambda pair: pair[0].invoked_ns):
        newest = answered.before(op.invoked_ns)
        if zxid <= newest:
            yield f"Z1: 0x{newest:x} was answered before this was sent, which became 0x{zxid:x}: {op}"


# Z5 and Z6: one session.


def _check_sessions(ops: Sequence[Op], bound: dict[int, Txn]) -> Iterator[str]:
    sent: dict[tuple[str, int], list[Op]] = defaultdict(list)
    for op in ops:
        sent[op.proc, op.connection].append(op)
    for pipeline in sent.values():
        yield from _check_pipeline(pipeline, bound)
    newest: dict[str, int] = defaultdict(int)
    for op in sorted((op for op in ops if op.answered), key=lambda op: op.position):
        if op.zxid < newest[op.proc]:
            yield f"Z6: has seen 0x{newest[op.proc]:x} before: {op}"
        newest[op.proc] = max(newest[op.proc], op.zxid)
    yield from _check_session_order(ops, bound)


def _check_pipeline(pipeline: Sequence[Op], bound: dict[int, Txn]) -> Iterator[str]:
    """The requests of one connection, in the order they were sent."""
    answers = [op.position for op in pipeline if op.answered]
    if answers != sorted(answers):
        yield f"Z5: answers out of order on connection {pipeline[0].connection} of {pipeline[0].proc}"
    skipped: Op | None = None
    for op in pipeline:
        if not op.answered:
            skipped = skipped or op
        elif skipped is not None:
            yield f"Z5: answered, though the request before never was ({skipped}): {op}"
    undone: Op | None = None
    for op in pipeline:
        if op.f not in WRITES or op.phase == "fail":
            continue
        if op.op_id not in bound:
            undone = undone or op
        elif undone is not None:
            yield f"Z5: done, though one sent before it was not ({undone}): {op}"


def _check_session_order(ops: Sequence[Op], bound: dict[int, Txn]) -> Iterator[str]:
    newest: dict[str, tuple[int, Op]] = {}
    for op in ops:
        txn = bound.get(op.op_id)
        if txn is None or not has_effect(txn):
            continue
        before = newest.get(op.proc)
        if before is not None and txn.zxid <= before[0]:
            yield f"Z5: done as 0x{txn.zxid:x}, behind 0x{before[0]:x} of a request sent before it: {op}"
        newest[op.proc] = txn.zxid, op


# Z9: the end of a session.


def _check_expiry(events: Sequence[Event], log: dict[int, Txn], ops: Sequence[Op], rules: Rules) -> Iterator[str]:
    """Not too early. That it ends once, with all it owns, is the model's business."""
    offset_ms = next((event.result["wall_ms"] - event.t_ns / 1e6 for event in events if event.f == "clock"), None)
    heard: dict[int, float] = {}
    for op in ops:
        if op.phase == "ok":
            heard[op.session] = max(heard.get(op.session, 0), op.invoked_ns / 1e6)
    timeouts: dict[int, int] = {}
    for txn in log.values():
        if isinstance(txn.body, CreateSessionTxn):
            timeouts[txn.session_id] = txn.body.timeout_ms
        if txn.type != OpCode.CLOSE_SESSION or txn.cxid or txn.session_id not in heard or offset_ms is None:
            continue
        silent_ms = txn.time_ms + 1 - offset_ms - heard[txn.session_id]
        timeout_ms = timeouts.get(txn.session_id, 0)
        if silent_ms < timeout_ms - rules.early_ms:
            yield f"Z9: session 0x{txn.session_id:x} expired after {silent_ms:.0f} ms of silence, not {timeout_ms} ms"
