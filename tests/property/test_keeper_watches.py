"""The watch tables against the plainest reading of what a watch is: a set of (watcher, path, kind)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.keeper.proto.jute import Reader
from ottla.keeper.proto.opcodes import EventType, WatcherType
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE, SetWatchesRequest
from ottla.keeper.server.paths import parent_of
from ottla.keeper.server.watches import Mode, Watches

PATHS = ("/a", "/a/b", "/a/b/c", "/d")
paths = st.sampled_from(PATHS)


class Told(NamedTuple):
    zxid: int
    type: int
    path: str


class Watcher:
    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[Told] = []
        self.readable = True

    def may_read(self, acl: tuple[ACL, ...]) -> bool:
        return self.readable or acl is OPEN_ACL_UNSAFE

    def notify(self, frame: bytes) -> None:
        reader = Reader(frame, 4)
        _xid, zxid, _err = reader.int32(), reader.int64(), reader.int32()
        type_, _state = reader.int32(), reader.int32()
        self.told.append(Told(zxid, type_, reader.string()))


@dataclass
class Znode:
    mzxid: int
    pzxid: int


Watch = tuple[str, str, str]
"""Watcher, path, and one of data, child, persistent, recursive."""


class WatchMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.watches = Watches()
        self.watchers = {name: Watcher(name) for name in ("one", "two", "three")}
        self.naive: set[Watch] = set()
        self.expected: dict[str, list[Told]] = {name: [] for name in self.watchers}
        self.zxid = 0

    names = st.sampled_from(["one", "two", "three"])

    @rule(name=names, path=paths)
    def watch_data(self, name: str, path: str) -> None:
        self.watches.data.add(path, self.watchers[name], Mode.STANDARD)
        self.naive.add((name, path, "data"))

    @rule(name=names, path=paths)
    def watch_children(self, name: str, path: str) -> None:
        self.watches.child.add(path, self.watchers[name], Mode.STANDARD)
        self.naive.add((name, path, "child"))

    @rule(name=names, path=st.sampled_from(("/", *PATHS)), recursive=st.booleans())
    def watch_for_good(self, name: str, path: str, recursive: bool) -> None:
        self.watches.add(path, self.watchers[name], recursive=recursive)
        self.naive.add((name, path, "recursive" if recursive else "persistent"))

    # Changes.

    def _due(self, name: str, type_: EventType, path: str) -> None:
        if self.watchers[name].readable:
            self.expected[name].append(Told(self.zxid, type_, path))

    def _own(self, path: str) -> set[str]:
        """Who is told of a change of the znode itself."""
        above = {"/"} | {path[:at] for at in range(1, len(path) + 1) if path[at : at + 1] in ("/", "")}
        held = {name for name, at, kind in self.naive if kind in ("data", "persistent") and at == path}
        return held | {name for name, at, kind in self.naive if kind == "recursive" and at in above}

    def _children(self, path: str) -> set[str]:
        return {name for name, at, kind in self.naive if kind in ("child", "persistent") and at == path}

    def _spend(self, path: str, kind: str) -> None:
        self.naive = {watch for watch in self.naive if watch[1:] != (path, kind)}

    def _parent_changed(self, path: str) -> None:
        parent = parent_of(path)
        for name in self._children(parent):
            self._due(name, EventType.NODE_CHILDREN_CHANGED, parent)
        self._spend(parent, "child")

    @rule(path=paths)
    def set_data(self, path: str) -> None:
        self.zxid += 1
        for name in self._own(path):
            self._due(name, EventType.NODE_DATA_CHANGED, path)
        self._spend(path, "data")
        self.watches.data_changed(path, self.zxid, ())

    @rule(path=paths)
    def create(self, path: str) -> None:
        self.zxid += 1
        for name in self._own(path):
            self._due(name, EventType.NODE_CREATED, path)
        self._spend(path, "data")
        self._parent_changed(path)
        self.watches.created(path, self.zxid, (), ())

    @rule(path=paths)
    def delete(self, path: str) -> None:
        self.zxid += 1
        for name in self._own(path) | self._children(path):
            self._due(name, EventType.NODE_DELETED, path)
        self._spend(path, "data")
        self._spend(path, "child")
        self._parent_changed(path)
        self.watches.deleted(path, self.zxid, (), ())

    # Watchers.

    @rule(name=names)
    def leave(self, name: str) -> None:
        self.watches.remove_watcher(self.watchers[name])
        self.naive = {watch for watch in self.naive if watch[0] != name}

    @rule(name=names, readable=st.booleans())
    def may_read(self, name: str, readable: bool) -> None:
        self.watchers[name].readable = readable

    @rule(name=names, path=paths, type_=st.sampled_from(WatcherType))
    def remove(self, name: str, path: str, type_: WatcherType) -> None:
        kinds = {
            WatcherType.CHILDREN: {"child"},
            WatcherType.DATA: {"data"},
            WatcherType.ANY: {"data", "child", "persistent", "recursive"},
            WatcherType.PERSISTENT: {"persistent"},
            WatcherType.PERSISTENT_RECURSIVE: {"recursive"},
        }[type_]
        gone = {(name, path, kind) for kind in kinds} & self.naive
        assert self.watches.has(path, type_, self.watchers[name]) is bool(gone)
        assert self.watches.remove(path, type_, self.watchers[name]) is bool(gone)
        self.naive -= gone

    @rule(
        name=names,
        path=paths,
        since=st.integers(0, 20),
        node=st.none() | st.builds(Znode, st.integers(0, 20), st.integers(0, 20)),
    )
    def come_back(self, name: str, path: str, since: int, node: Znode | None) -> None:
        """SET_WATCHES on a new connection: told what was missed, or watching on."""
        self.leave(name)
        watcher, nodes = self.watchers[name], {} if node is None else {path: node}
        self.watches.reset(SetWatchesRequest(since, [path], [path], [path], [path], [path]), nodes, watcher)
        self.naive |= {(name, path, "persistent"), (name, path, "recursive")}
        if node is None:
            late = [EventType.NODE_DELETED, EventType.NODE_DELETED]
            self.naive.add((name, path, "data"))
        else:
            late = [EventType.NODE_CREATED]
            if node.mzxid > since:
                late.insert(0, EventType.NODE_DATA_CHANGED)
            else:
                self.naive.add((name, path, "data"))
            if node.pzxid > since:
                late.append(EventType.NODE_CHILDREN_CHANGED)
            else:
                self.naive.add((name, path, "child"))
        self.expected[name] += [Told(-1, type_, path) for type_ in late]

    @invariant()
    def everybody_was_told_everything_once(self) -> None:
        for name, watcher in self.watchers.items():
            assert watcher.told == self.expected[name]

    @invariant()
    def nothing_is_left_over(self) -> None:
        data = {(name, path) for name, path, kind in self.naive if kind != "child"}
        child = {(name, path) for name, path, kind in self.naive if kind in ("child", "persistent")}
        assert len(self.watches.data) == len(data)
        assert len(self.watches.child) == len(child)
        assert self.watches.data.recursive == sum(kind == "recursive" for _, _, kind in self.naive)


TestWatches = WatchMachine.TestCase
TestWatches.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
