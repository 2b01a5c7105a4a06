"""Who is told about what: the watch tables of one server.

A watch is on a path, for one watcher (a client connection), in one or more modes:

    standard              fires once, for the path itself
    persistent            fires every time, for the path itself
    persistent recursive  fires every time, for the path and everything below it

There are two tables, as in ZooKeeper: *data* watches (GET_DATA, EXISTS and both persistent kinds) and *child*
watches (GET_CHILDREN and the persistent, not recursive, kind). A change triggers tables in this order:

    created    data(path)  NODE_CREATED        then child(parent) NODE_CHILDREN_CHANGED
    deleted    data(path)  NODE_DELETED        then child(path) NODE_DELETED, for those not told yet,
                                               then child(parent) NODE_CHILDREN_CHANGED
    data set   data(path)  NODE_DATA_CHANGED

Events are handed to the watcher while the change is applied, so that no reply that shows the new state can
overtake them. A watcher that may not READ the node is not told (CVE-2024-23944), but its one-shot watch is spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntFlag
from typing import Final, Protocol

from ottla.keeper.proto.opcodes import EventType, WatcherType
from ottla.keeper.proto.records import ACL, SetWatchesRequest, watcher_event
from ottla.keeper.server.paths import parent_of


class Mode(IntFlag):
    STANDARD = 1
    PERSISTENT = 2
    RECURSIVE = 4


_STANDARD: Final = Mode.STANDARD.value
_RECURSIVE: Final = Mode.RECURSIVE.value


class Watcher(Protocol):
    """A client connection, as watches see it. Compared by identity."""

    def may_read(self, acl: tuple[ACL, ...]) -> bool: ...
    def notify(self, frame: bytes) -> None: ...


class Znode(Protocol):
    mzxid: int
    pzxid: int


class WatchTable:
    """Watches by path and by watcher; either way round costs what it returns.

    Most paths are watched by one client only, and all those of one client, in one mode, share the dictionary that says
    so. One that has a single watcher is therefore replaced, never changed.
    """

    __slots__ = ("_alone", "_by_path", "_by_watcher", "recursive")

    def __init__(self) -> None:
        self._by_path: dict[str, dict[Watcher, int]] = {}
        self._by_watcher: dict[Watcher, set[str]] = {}
        self._alone: dict[Watcher, dict[int, dict[Watcher, int]]] = {}
        self.recursive = 0

    def __len__(self) -> int:
        return sum(len(paths) for paths in self._by_watcher.values())

    @property
    def paths(self) -> int:
        return len(self._by_path)

    def by_path(self) -> Iterator[tuple[str, Iterable[Watcher]]]:
        return iter(self._by_path.items())

    def by_watcher(self) -> Iterator[tuple[Watcher, Iterable[str]]]:
        return iter(self._by_watcher.items())

    def add(self, path: str, watcher: Watcher, mode: int) -> None:
        before = self._by_path[path].get(watcher, 0) if path in self._by_path else 0
        self._set(path, watcher, before | mode)
        if not before:
            paths = self._by_watcher.get(watcher)
            if paths is None:
                paths = self._by_watcher[watcher] = set()
            paths.add(path)
        if mode & _RECURSIVE and not before & _RECURSIVE:
            self.recursive += 1

    def _set(self, path: str, watcher: Watcher, mode: int) -> None:
        watchers = self._by_path.get(path)
        if watchers is None or (len(watchers) == 1 and watcher in watchers):
            self._by_path[path] = self._alone.setdefault(watcher, {}).setdefault(mode, {watcher: mode})
        elif len(watchers) == 1:
            self._by_path[path] = {**watchers, watcher: mode}
        else:
            watchers[watcher] = mode

    def has(self, path: str, watcher: Watcher, mode: int | None) -> bool:
        held = self._by_path.get(path, {}).get(watcher, 0)
        return bool(held if mode is None else held & mode)

    def remove(self, path: str, watcher: Watcher, mode: int | None) -> bool:
        """Take modes (all of them for None) off one watch; False if there was nothing to take."""
        held = self._by_path.get(path, {}).get(watcher, 0)
        taken = held if mode is None else held & mode
        if not taken:
            return False
        if taken & _RECURSIVE:
            self.recursive -= 1
        if held == taken:
            self._drop(path, watcher)
        else:
            self._set(path, watcher, held & ~taken)
        return True

    def remove_watcher(self, watcher: Watcher) -> None:
        self._alone.pop(watcher, None)
        for path in self._by_watcher.pop(watcher, ()):
            watchers = self._by_path[path]
            if watchers[watcher] & _RECURSIVE:
                self.recursive -= 1
            if len(watchers) == 1:
                del self._by_path[path]
            else:
                del watchers[watcher]

    def trigger(self, path: str) -> list[Watcher]:
        """The watchers a change of ``path`` concerns, each once; one-shot watches are spent by this."""
        fired: list[Watcher] = []
        watchers = self._by_path.get(path)
        if watchers is not None:
            fired = list(watchers)
            for watcher in fired:
                left = watchers[watcher] & ~_STANDARD
                if left:
                    self._set(path, watcher, left)
                else:
                    self._drop(path, watcher)
        if self.recursive:
            self._trigger_above(path, fired)
        return fired

    def _trigger_above(self, path: str, fired: list[Watcher]) -> None:
        while path != "/":
            path = parent_of(path)
            for watcher, mode in self._by_path.get(path, {}).items():
                if mode & _RECURSIVE and watcher not in fired:
                    fired.append(watcher)

    def _drop(self, path: str, watcher: Watcher) -> None:
        watchers = self._by_path[path]
        if len(watchers) == 1:
            del self._by_path[path]
        else:
            del watchers[watcher]
        paths = self._by_watcher[watcher]
        paths.discard(path)
        if not paths:
            del self._by_watcher[watcher]
            self._alone.pop(watcher, None)


class Watches:
    """Both tables, and the rules that tie events to them."""

    __slots__ = ("child", "data", "fired")

    def __init__(self) -> None:
        self.data = WatchTable()
        self.child = WatchTable()
        self.fired = dict.fromkeys(EventType, 0)

    def created(self, path: str, zxid: int, acl: tuple[ACL, ...], parent_acl: tuple[ACL, ...]) -> None:
        if self.data._by_path:
            self._tell(self.data.trigger(path), EventType.NODE_CREATED, path, zxid, acl)
        if self.child._by_path:
            self._children_changed(parent_of(path), zxid, parent_acl)

    def deleted(self, path: str, zxid: int, acl: tuple[ACL, ...], parent_acl: tuple[ACL, ...]) -> None:
        told = self.data.trigger(path)
        self._tell(told, EventType.NODE_DELETED, path, zxid, acl)
        rest = [watcher for watcher in self.child.trigger(path) if watcher not in told]
        self._tell(rest, EventType.NODE_DELETED, path, zxid, acl)
        self._children_changed(parent_of(path), zxid, parent_acl)

    def data_changed(self, path: str, zxid: int, acl: tuple[ACL, ...]) -> None:
        if self.data._by_path:
            self._tell(self.data.trigger(path), EventType.NODE_DATA_CHANGED, path, zxid, acl)

    def _children_changed(self, parent: str, zxid: int, acl: tuple[ACL, ...]) -> None:
        self._tell(self.child.trigger(parent), EventType.NODE_CHILDREN_CHANGED, parent, zxid, acl)

    def _tell(self, watchers: list[Watcher], type_: EventType, path: str, zxid: int, acl: tuple[ACL, ...]) -> None:
        if not watchers:
            return
        self.fired[type_] += len(watchers)
        frame = watcher_event(type_, path, zxid)
        for watcher in watchers:
            if watcher.may_read(acl):
                watcher.notify(frame)

    def add(self, path: str, watcher: Watcher, *, recursive: bool) -> None:
        if recursive:
            self.data.add(path, watcher, Mode.RECURSIVE)
        else:
            self.data.add(path, watcher, Mode.PERSISTENT)
            self.child.add(path, watcher, Mode.PERSISTENT)

    def reset(self, request: SetWatchesRequest, nodes: Mapping[str, Znode], watcher: Watcher) -> None:
        """SET_WATCHES: a client that reconnects is told what it missed, or watches on."""
        since = request.relative_zxid
        for path in request.data:
            node = nodes.get(path)
            if node is None:
                watcher.notify(watcher_event(EventType.NODE_DELETED, path, -1))
            elif node.mzxid > since:
                watcher.notify(watcher_event(EventType.NODE_DATA_CHANGED, path, -1))
            else:
                self.data.add(path, watcher, Mode.STANDARD)
        for path in request.exist:
            if path in nodes:
                watcher.notify(watcher_event(EventType.NODE_CREATED, path, -1))
            else:
                self.data.add(path, watcher, Mode.STANDARD)
        for path in request.child:
            node = nodes.get(path)
            if node is None:
                watcher.notify(watcher_event(EventType.NODE_DELETED, path, -1))
            elif node.pzxid > since:
                watcher.notify(watcher_event(EventType.NODE_CHILDREN_CHANGED, path, -1))
            else:
                self.child.add(path, watcher, Mode.STANDARD)
        for path in request.persistent:
            self.add(path, watcher, recursive=False)
        for path in request.persistent_recursive:
            self.add(path, watcher, recursive=True)

    def has(self, path: str, type_: int, watcher: Watcher) -> bool:
        if type_ == WatcherType.CHILDREN:
            return self.child.has(path, watcher, Mode.STANDARD)
        if type_ == WatcherType.ANY:
            return self.child.has(path, watcher, None) or self.data.has(path, watcher, None)
        return self.data.has(path, watcher, _MODES[type_])

    def remove(self, path: str, type_: int, watcher: Watcher) -> bool:
        if type_ == WatcherType.CHILDREN:
            return self.child.remove(path, watcher, Mode.STANDARD)
        if type_ in (WatcherType.ANY, WatcherType.PERSISTENT):
            mode = None if type_ == WatcherType.ANY else Mode.PERSISTENT
            removed = [table.remove(path, watcher, mode) for table in (self.child, self.data)]
            return any(removed)
        return self.data.remove(path, watcher, _MODES[type_])

    def remove_watcher(self, watcher: Watcher) -> None:
        self.data.remove_watcher(watcher)
        self.child.remove_watcher(watcher)


_MODES: dict[int, Mode] = {
    WatcherType.DATA: Mode.STANDARD,
    WatcherType.PERSISTENT: Mode.PERSISTENT,
    WatcherType.PERSISTENT_RECURSIVE: Mode.RECURSIVE,
}
