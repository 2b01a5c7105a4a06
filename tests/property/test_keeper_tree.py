"""Preparation, tree and digest against a dictionary of paths, with requests in flight.

The model and the oracle are those of the simulation: they know the states every path has had, and nothing else.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.keeper.proto.opcodes import CreateMode, OpCode
from ottla.keeper.proto.records import (
    OPEN_ACL_UNSAFE,
    STAT,
    CreateRequest,
    EmptyRequest,
    MultiRequest,
    Op,
    PathVersionRequest,
    Request,
    SessionRequest,
    SetDataRequest,
    Stat,
)
from ottla.keeper.proto.txns import Txn, decode_txn, encode_txn
from ottla.keeper.server.prep import Prep, Rules, Submitted
from ottla.keeper.server.sessions import SessionTracker
from ottla.keeper.server.tree import DataTree, Result
from ottla.keeper.store import decode_snapshot, encode_snapshot
from tests.sim import wire
from tests.sim.model import Model
from tests.sim.oracle import expected_write

SESSIONS = (11, 22)
paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep", "/c/nowhere"])
versions = st.sampled_from([-1, -1, -1, 0, 1, 2])
data = st.binary(max_size=4)

creations = st.builds(
    lambda path, data, mode: Op(
        {CreateMode.CONTAINER: OpCode.CREATE_CONTAINER, CreateMode.PERSISTENT_WITH_TTL: OpCode.CREATE_TTL}.get(
            mode, OpCode.CREATE2
        ),
        CreateRequest(path, data, OPEN_ACL_UNSAFE, mode, 1000 if mode.is_ttl else -1),
    ),
    paths,
    data,
    st.sampled_from(list(CreateMode)[:6]),
)
updates = st.builds(
    lambda path, data, version: Op(OpCode.SET_DATA, SetDataRequest(path, data, version)), paths, data, versions
)
removals = st.builds(lambda path, version: Op(OpCode.DELETE, PathVersionRequest(path, version)), paths, versions)
checks = st.builds(lambda path, version: Op(OpCode.CHECK, PathVersionRequest(path, version)), paths, versions)
single = creations | updates | removals


def shown(result: Result, type_: int) -> wire.Result:
    """A result as the client that asked would see it."""
    if type_ == OpCode.MULTI and result.type == OpCode.MULTI:
        return wire.Result(results=tuple(shown(one, one.type) for one in result.results))
    if result.err:
        return wire.Result(result.err)
    with_path = type_ in (OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
    stat = Stat._make(STAT.unpack(result.stat)) if result.stat else None
    return wire.Result(path=result.path if with_path else None, stat=stat)


class TreeMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.tree, self.model = DataTree(), Model()
        self.prep = Prep(self.tree, SessionTracker({}, 1000, 0), Rules(extended_types=True))
        self.zxid = 0
        self.sessions = max(SESSIONS)
        self.flying: list[tuple[Op, Txn]] = []
        self.done: list[Txn] = []
        for session_id in SESSIONS:
            self.submit(session_id, Op(OpCode.CREATE_SESSION, SessionRequest(5000)), b"\0\0\x13\x88")
        self.commit(99)

    def submit(self, session_id: int, op: Op, body: bytes | None = None) -> None:
        if body is None:
            out = bytearray()
            wire.put_request(out, op.type, op.request)
            body = bytes(out)
        self.zxid += 1
        request = Submitted(session_id, self.zxid, op.type, body, (), 1)
        self.flying.append((op, self.prep.prepare(request, self.zxid, 1000 + self.zxid)))

    @rule(session_id=st.sampled_from(SESSIONS), op=single)
    def ask(self, session_id: int, op: Op) -> None:
        self.submit(session_id, op)

    @rule(session_id=st.sampled_from(SESSIONS), ops=st.lists(single | checks, max_size=6))
    def ask_for_many(self, session_id: int, ops: list[Op]) -> None:
        self.submit(session_id, Op(OpCode.MULTI, MultiRequest(ops)))

    @rule(session_id=st.sampled_from(SESSIONS), creation=creations, version=versions)
    def ask_to_replace(self, session_id: int, creation: Op, version: int) -> None:
        """A path created, deleted and created again by one multi, which its last check may undo."""
        assert isinstance(creation.request, CreateRequest)
        path = creation.request.path
        delete = Op(OpCode.DELETE, PathVersionRequest(path, -1))
        check = Op(OpCode.CHECK, PathVersionRequest(path, version))
        self.submit(session_id, creation)
        self.submit(session_id, Op(OpCode.MULTI, MultiRequest([delete, creation, delete, creation, check])))

    @rule(session_id=st.sampled_from(SESSIONS))
    def close_session(self, session_id: int) -> None:
        request: Request = EmptyRequest()
        self.submit(session_id, Op(OpCode.CLOSE_SESSION, request))
        self.sessions += 1
        self.submit(self.sessions, Op(OpCode.CREATE_SESSION, SessionRequest(5000)), b"\0\0\x13\x88")

    @rule(count=st.integers(1, 9))
    def commit(self, count: int) -> None:
        for op, txn in self.flying[:count]:
            assert decode_txn(encode_txn(txn)) == txn
            result = self.tree.apply(txn)
            assert txn.digest in (None, self.tree.digest), "prepared and applied, a znode is the same"
            closed = txn.session_id in self.model.closed
            self.model.apply(txn)
            if isinstance(op.request, SessionRequest | EmptyRequest) or closed:
                continue
            due = expected_write(self.model, txn.zxid, txn.time_ms, op.type, op.request, txn.session_id)
            assert shown(result, op.type) == due
        self.done += [txn for _, txn in self.flying[:count]]
        if self.done:
            self.prep.committed(self.done[-1].zxid)
        del self.flying[:count]

    @rule()
    def restart_from_a_snapshot(self) -> None:
        """Whatever is in flight is lost with the leader."""
        self.flying.clear()
        self.tree = decode_snapshot(encode_snapshot(self.tree), self.tree.last_zxid).tree
        self.prep = Prep(self.tree, SessionTracker(self.tree.sessions, 1000, 0), Rules(extended_types=True))

    @rule(back=st.integers(1, 12))
    def replay_what_is_there_already(self, back: int) -> None:
        """A fuzzy snapshot holds later transactions already; applying them again, in order, changes nothing."""
        if self.flying:
            return
        for txn in self.done[-back:]:
            self.tree.apply(txn)

    @invariant()
    def the_tree_is_the_model(self) -> None:
        assert self.tree.digest == self.model.digests[self.done[-1].zxid if self.done else 0]
        assert {path: frozenset(node.children or ()) for path, node in self.tree.nodes.items()} == {
            path: node.children for path, node in self.model.now.items()
        }
        assert self.tree.sessions == self.model.sessions
        assert self.tree.data_bytes == sum(len(path) + len(node.data or b"") for path, node in self.tree.nodes.items())


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
