"""Histories made by hand, to try the witness on: a perfect ensemble in a few lines, whose every step can be bent.

``write`` and ``read`` do what a client and its server would; ``send``, ``commit`` and ``answer`` are the same in
pieces, so that a test can leave one out, repeat it, or do it in the wrong order. The clock counts steps.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ottla.keeper.proto.opcodes import CreateMode, EventType, OpCode
from ottla.keeper.proto.txns import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetDataTxn,
    Txn,
    TxnBody,
)
from tests.chaos.client import Request
from tests.chaos.history import Event, Fields
from tests.chaos.model import Model, parent_of
from tests.chaos.remains import Remains

TIMEOUT_MS = 4000
WRITE_TYPES = {"create": OpCode.CREATE2, "delete": OpCode.DELETE, "set": OpCode.SET_DATA, "check": OpCode.CHECK}


class Story:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.txns: list[Txn] = []
        self.model = Model()
        self.zxid = 1 << 32
        self.now_ns = 0
        self._sessions: dict[str, int] = {}
        self._connections: dict[str, int] = {}
        self._xids: dict[str, int] = {}
        self._asked: dict[int, tuple[str, Request, Fields]] = {}
        self._results: dict[int, Fields] = {}
        self._note("clock", {"wall_ms": 0.0})

    def elect(self) -> None:
        """A new leader, a new epoch."""
        self.zxid = (self.zxid >> 32) + 1 << 32

    # Sessions.

    def open(self, *names: str) -> None:
        for name in names:
            self._sessions[name] = len(self._sessions) + 1
            self._connections[name], self._xids[name] = 1, 0
            self._txn(self._sessions[name], 0, OpCode.CREATE_SESSION, CreateSessionTxn(TIMEOUT_MS))

    def reconnect(self, name: str) -> None:
        self._connections[name] += 1

    def expire(self, name: str, *, paths: list[str] | None = None) -> None:
        session = self._sessions[name]
        owned = sorted(path for path, node in self.model.nodes.items() if node.owner == session)
        self._txn(session, 0, OpCode.CLOSE_SESSION, CloseSessionTxn(owned if paths is None else paths))

    # Requests.

    def write(self, name: str, request: Request, **result: Any) -> Fields:
        op_id = self.send(name, request)
        self.commit(op_id)
        return self.answer(op_id, **result)

    def read(self, name: str, request: Request, **result: Any) -> Fields:
        return self.answer(self.send(name, request), **result)

    def send(self, name: str, request: Request) -> int:
        self._xids[name] += 1
        op_id = len(self._asked)
        args = {
            "session": self._sessions[name],
            "connection": self._connections[name],
            "server": 0,
            "xid": self._xids[name],
            **request.args,
        }
        self._asked[op_id] = name, request, args
        self._event(name, op_id, "invoke", request.f, args, {})
        return op_id

    def commit(self, op_id: int) -> None:
        """Make a transaction of a request, as a leader would."""
        _, request, args = self._asked[op_id]
        err = self.model.refusal(request.f, args)
        type_, body = (OpCode.ERROR, ErrorTxn(err)) if err else self._body(request.f, args)
        effects = self._txn(args["session"], args["xid"], type_, body)
        if err or request.f == "close":
            self._results[op_id] = {"zxid": self.zxid, "err": int(err)}
        elif request.f == "multi":
            results = [{"err": 0, "path": path, "stat": list(stat or ())} for path, stat in effects]
            self._results[op_id] = {"zxid": self.zxid, "err": 0, "results": results}
        else:
            path, stat = effects[0]
            self._results[op_id] = {"zxid": self.zxid, "err": 0, "path": path, **({"stat": list(stat)} if stat else {})}

    def answer(self, op_id: int, **bent: Any) -> Fields:
        name, request, args = self._asked[op_id]
        result = {**(self._results.get(op_id) or self._seen(request, args)), **bent}
        self._event(name, op_id, "fail" if result["err"] else "ok", request.f, {}, result)
        return result

    def give_up(self, op_id: int) -> None:
        name, request, _ = self._asked[op_id]
        self._event(name, op_id, "info", request.f, {}, {})

    def fire(self, name: str, type_: EventType, path: str, *, zxid: int | None = None) -> None:
        fired = {"zxid": self.zxid if zxid is None else zxid, "type": type_, "path": path}
        self._event(name, -1, "event", "event", {}, fired)

    # What is left.

    def remains(self, name: str = "1", *, without: Collection[int] = (), end: int | None = None) -> Remains:
        kept = [txn for txn in self.txns if txn.zxid not in without and (end is None or txn.zxid <= end)]
        return Remains(name, kept, kept[-1].zxid, None)

    def _seen(self, request: Request, args: Fields) -> Fields:
        result: Fields = {"zxid": self.zxid, "err": 0}
        if request.f in ("sync", "add_watch", "set_watches"):
            return result
        node = self.model.nodes.get(args["path"])
        if node is None:
            return {**result, "err": -101}
        result["stat"] = list(node.stat)
        if request.f == "get":
            result["data"] = node.data
        elif request.f == "children":
            result["children"] = sorted(node.children)
        return result

    def _body(self, f: str, args: Fields) -> tuple[OpCode, TxnBody]:
        if f == "multi":
            return OpCode.MULTI, MultiTxn([self._body(op["f"], op) for op in args["ops"]])
        if f == "close":
            owned = sorted(path for path, node in self.model.nodes.items() if node.owner == args["session"])
            return OpCode.CLOSE_SESSION, CloseSessionTxn(owned)
        path = args["path"]
        if f == "create":
            mode, creates = CreateMode(args["flags"]), self.model.nodes[parent_of(path)].creates
            path += f"{creates:010d}" if mode.is_sequential else ""
            body: TxnBody = CreateTxn(path, args["data"].encode(), (), mode.is_ephemeral, creates + 1)
        elif f == "set":
            body = SetDataTxn(path, args["data"].encode(), self.model.nodes[path].version + 1)
        elif f == "delete":
            body = DeleteTxn(path)
        else:
            body = CheckVersionTxn(path, args["version"])
        return WRITE_TYPES[f], body

    def _txn(self, session: int, cxid: int, type_: OpCode, body: TxnBody) -> Any:
        self.zxid += 1
        self._tick()
        txn = Txn(session, cxid, self.zxid, self.now_ns // 1_000_000, type_, body, None)
        self.txns.append(txn)
        return self.model.apply(txn).effects

    def _note(self, f: str, result: Fields) -> None:
        self._event("story", -1, "note", f, {}, result)

    def _event(self, proc: str, op_id: int, phase: str, f: str, args: Fields, result: Fields) -> None:
        self.events.append(Event(self.now_ns, proc, op_id, phase, f, args, result))
        self._tick()

    def _tick(self) -> None:
        self.now_ns += 1_000_000

    def wait(self, ms: int) -> None:
        self.now_ns += ms * 1_000_000
