"""Z8, for ``witness``: every watch fires as its client must believe it does.

The replayed log says what changed when. For each session the answers and events are walked in the order they arrived:

    a read that sets a watch     arms it: its trigger is the first change behind the state that was read
    an event                     must be the trigger of an armed watch, and disarms it
    any answer                   must not show a trigger whose event has not come: the event travels first
    set_watches, on reconnect    arms again whatever has not fired, for changes behind that answer; where the znode has
                                 come and gone meanwhile a watch for its creation has nothing to tell

A recursive watch is armed for every change below its path, in order; within one transaction there is none. Changes
made while the client was away are lost to it, as they are with ZooKeeper.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import EventType
from tests.chaos.history import Event, Op, watch_events
from tests.chaos.model import Change, parent_of


class Kind(Enum):
    DATA = "data"
    CHILD = "child"


SETS = {"get": Kind.DATA, "exists": Kind.DATA, "children": Kind.CHILD}
FIRED_BY = {
    EventType.NODE_CREATED: (Kind.DATA,),
    EventType.NODE_DATA_CHANGED: (Kind.DATA,),
    EventType.NODE_DELETED: (Kind.DATA, Kind.CHILD),
    EventType.NODE_CHILDREN_CHANGED: (Kind.CHILD,),
}


class Trigger(NamedTuple):
    zxid: int
    type: EventType
    path: str


class Changes:
    """What the log did, by who would be told."""

    def __init__(self, changes: Iterable[tuple[int, Change]]) -> None:
        self.all: list[Trigger] = []
        self._told: dict[tuple[Kind, str], list[Trigger]] = defaultdict(list)
        for zxid, (type_, path) in changes:
            trigger = Trigger(zxid, type_, path)
            self.all.append(trigger)
            for kind in FIRED_BY[type_]:
                self._told[kind, path].append(trigger)
            if type_ in (EventType.NODE_CREATED, EventType.NODE_DELETED):
                parent = parent_of(path)
                self._told[Kind.CHILD, parent].append(Trigger(zxid, EventType.NODE_CHILDREN_CHANGED, parent))

    def first(self, kind: Kind, path: str, *, after: int) -> Trigger | None:
        told = self._told[kind, path]
        at = bisect_right(told, after, key=lambda trigger: trigger.zxid)
        return told[at] if at < len(told) else None

    def is_there(self, path: str, zxid: int) -> bool:
        told = self._told[Kind.DATA, path]
        at = bisect_right(told, zxid, key=lambda trigger: trigger.zxid)
        return at > 0 and told[at - 1].type is not EventType.NODE_DELETED


def check_watches(
    events: Sequence[Event], ops: Iterable[Op], seen: Mapping[int, int], changes: Iterable[tuple[int, Change]]
) -> Iterator[str]:
    """``seen`` gives for each read the zxid of the state it showed."""
    told = Changes(changes)
    arrived: list[tuple[int, str, Op | Event]] = [(at, event.proc, event) for at, event in watch_events(events)]
    arrived += [(op.position, op.proc, op) for op in ops if op.answered]
    watchers: dict[str, _Watcher] = {}
    for _, proc, what in sorted(arrived, key=lambda item: item[0]):
        watcher = watchers.setdefault(proc, _Watcher(proc, told))
        yield from watcher.on_answer(what, seen) if isinstance(what, Op) else watcher.on_event(what)


class _Watcher:
    """One session's watches."""

    def __init__(self, proc: str, told: Changes) -> None:
        self._proc = proc
        self._told = told
        self._armed: dict[tuple[Kind, str], Trigger | None] = {}
        self._recursive: str | None = None
        self._next = 0  # of all changes, the first that the recursive watch has not told
        self._ahead: set[int] = set()  # those behind it that it has told, of the same transaction

    def on_answer(self, op: Op, seen: Mapping[int, int]) -> Iterator[str]:
        if op.f == "set_watches":
            self._rearm(op.zxid)
        yield from self._check_overdue(op)
        if op.f == "add_watch" and op.phase == "ok":
            self._recursive = op.args["path"]
            self._skip_to(op.zxid)
        sets = op.args.get("watch") and (op.phase == "ok" or (op.f == "exists" and op.err == ErrorCode.NO_NODE))
        if sets and op.op_id in seen:
            key = SETS[op.f], op.args["path"]
            self._armed.setdefault(key, self._told.first(*key, after=seen[op.op_id]))

    def on_event(self, event: Event) -> Iterator[str]:
        result = event.result
        fired = Trigger(result["zxid"], EventType(result["type"]), result["path"])
        if self._recursive is not None and _is_below(fired.path, self._recursive):
            yield from self._on_recursive(fired)
            return
        armed = [(kind, fired.path) for kind in FIRED_BY[fired.type] if (kind, fired.path) in self._armed]
        # What a new server finds changed it tells without a zxid, and by what it finds, not by what came first.
        spent = [key for key in armed if self._armed[key] == fired or (fired.zxid == -1 and self._armed[key])]
        if not spent:
            expected = [self._armed[key] for key in armed] or "no watch there"
            yield f"Z8: {self._proc} is told {fired}, and expects {expected}"
        for key in spent:
            del self._armed[key]

    def _on_recursive(self, fired: Trigger) -> Iterator[str]:
        expected, every = self._peek(), self._told.all
        for at in range(self._next, len(every)):
            if expected is None or every[at].zxid != expected.zxid:
                break
            if every[at] == fired and at not in self._ahead:
                self._ahead.add(at)
                return
        yield f"Z8: {self._proc} is told {fired} by its recursive watch, and expects {expected}"
        self._skip_to(fired.zxid)

    def _check_overdue(self, op: Op) -> Iterator[str]:
        for key, trigger in list(self._armed.items()):
            if trigger is not None and trigger.zxid <= op.zxid:
                del self._armed[key]
                yield f"Z8: {self._proc} was not told {trigger} before it saw 0x{op.zxid:x}: {op}"
        while (expected := self._peek()) is not None and expected.zxid <= op.zxid:
            self._next += 1
            yield f"Z8: {self._proc} was not told {expected} by its recursive watch before it saw 0x{op.zxid:x}: {op}"

    def _rearm(self, zxid: int) -> None:
        """A new server knows the watches again, as of ``zxid``, and has told what it found changed."""
        for (kind, path), trigger in list(self._armed.items()):
            created = trigger is not None and trigger.type is EventType.NODE_CREATED
            if created and kind is Kind.DATA and not self._told.is_there(path, zxid):
                self._armed[kind, path] = self._told.first(kind, path, after=zxid)
        self._skip_to(zxid)

    def _peek(self) -> Trigger | None:
        """The next change the recursive watch is to tell."""
        if self._recursive is None:
            return None
        every, ahead = self._told.all, self._ahead
        while self._next < len(every) and (
            self._next in ahead or not _is_below(every[self._next].path, self._recursive)
        ):
            ahead.discard(self._next)
            self._next += 1
        return every[self._next] if self._next < len(every) else None

    def _skip_to(self, zxid: int) -> None:
        self._next = max(self._next, bisect_right(self._told.all, zxid, key=lambda trigger: trigger.zxid))


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")
