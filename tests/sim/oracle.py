"""What an operation had to answer, given the zxid of its answer."""

from __future__ import annotations

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import CreateMode, OpCode
from ottla.keeper.proto.records import (
    CreateRequest,
    MultiRequest,
    PathRequest,
    PathVersionRequest,
    PathWatchRequest,
    Request,
    SetDataRequest,
)
from ottla.keeper.server.tree import CONTAINER_OWNER, is_ephemeral, ttl_owner
from tests.sim.model import Model, Znode, split
from tests.sim.wire import Result


def expected_read(model: Model, zxid: int, type_: int, request: Request, session_id: int) -> Result:
    """A read, or anything else that changes nothing, answered from the tree as of ``zxid``."""
    if isinstance(request, PathWatchRequest):
        node = model.at(request.path, zxid)
        if node is None:
            return Result(ErrorCode.NO_NODE)
        match type_:
            case OpCode.GET_DATA:
                return Result(data=node.data, stat=node.stat)
            case OpCode.GET_CHILDREN2:
                return Result(children=node.children, stat=node.stat)
        return Result(stat=node.stat)
    if type_ == OpCode.SYNC:
        assert isinstance(request, PathRequest)
        return Result(path=request.path)
    if type_ == OpCode.GET_EPHEMERALS:
        past = ((path, past.at(zxid)) for path, past in model.past.items())
        return Result(children=frozenset(path for path, node in past if node is not None and node.owner == session_id))
    return Result()


def expected_write(model: Model, zxid: int, time_ms: int, type_: int, request: Request, session_id: int) -> Result:
    """A write, done as transaction ``zxid``."""
    trial = _Trial(model, zxid, time_ms, session_id)
    if not isinstance(request, MultiRequest):
        return trial.run(type_, request)
    results: list[Result] = []
    for op in request.ops:
        results.append(trial.run(op.type, op.request))
        if results[-1].err:
            done = len(results)
            failed = [Result(ErrorCode.OK)] * (done - 1) + [results[-1]]
            rest = [Result(ErrorCode.RUNTIME_INCONSISTENCY)] * (len(request.ops) - done)
            return Result(results=(*failed, *rest))
    return Result(results=tuple(results))


class _Trial:
    """The tree as it was before a transaction, with what its operations have done so far laid over it."""

    def __init__(self, model: Model, zxid: int, time_ms: int, session_id: int) -> None:
        self._model = model
        self._zxid = zxid
        self._time_ms = time_ms
        self._session_id = session_id
        self._done: dict[str, Znode | None] = {}

    def _get(self, path: str) -> Znode | None:
        return self._done[path] if path in self._done else self._model.at(path, self._zxid - 1)

    def run(self, type_: int, request: Request) -> Result:
        match request:
            case CreateRequest():
                return self._create(type_, request)
            case SetDataRequest():
                return self._set_data(request)
            case PathVersionRequest():
                return self._check(request) if type_ == OpCode.CHECK else self._delete(request)
        return Result()

    def _create(self, type_: int, request: CreateRequest) -> Result:
        mode, path = CreateMode(request.flags), request.path
        parent_path = split(path)[0]
        parent = self._get(parent_path)
        if parent is None:
            return Result(ErrorCode.NO_NODE)
        if mode.is_sequential:
            path += f"{parent.cversion:010d}"
        if self._get(path) is not None:
            return Result(ErrorCode.NODE_EXISTS)
        if is_ephemeral(parent.owner):
            return Result(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        zxid, now_ms, owner = self._zxid, self._time_ms, 0
        if mode.is_ephemeral:
            owner = self._session_id
        elif mode is CreateMode.CONTAINER:
            owner = CONTAINER_OWNER
        elif mode.is_ttl:
            owner = ttl_owner(request.ttl)
        node = Znode(request.data, zxid, zxid, zxid, now_ms, now_ms, owner=owner)
        self._done[parent_path] = parent.with_child(split(path)[1], zxid)
        self._done[path] = node
        return Result(path=path, stat=None if type_ == OpCode.CREATE else node.stat)

    def _set_data(self, request: SetDataRequest) -> Result:
        node = self._get(request.path)
        if node is None:
            return Result(ErrorCode.NO_NODE)
        if request.version not in (-1, node.version):
            return Result(ErrorCode.BAD_VERSION)
        version = node.version + 1
        node = node._replace(data=request.data, version=version, mzxid=self._zxid, mtime=self._time_ms)
        self._done[request.path] = node
        return Result(stat=node.stat)

    def _delete(self, request: PathVersionRequest) -> Result:
        path = request.path
        parent_path, name = split(path)
        parent, node = self._get(parent_path), self._get(path)
        if parent is None or node is None:
            return Result(ErrorCode.NO_NODE)
        if request.version not in (-1, node.version):
            return Result(ErrorCode.BAD_VERSION)
        if node.children:
            return Result(ErrorCode.NOT_EMPTY)
        self._done[parent_path] = parent.without_child(name, self._zxid)
        self._done[path] = None
        return Result()

    def _check(self, request: PathVersionRequest) -> Result:
        node = self._get(request.path)
        if node is None:
            return Result(ErrorCode.NO_NODE)
        return Result() if request.version in (-1, node.version) else Result(ErrorCode.BAD_VERSION)
