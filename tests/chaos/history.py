"""What clients did and saw, one JSON line an event, on the clock that all processes of a machine share.

    {"t_ns": 17, "proc": "s1", "op_id": 4, "phase": "invoke", "f": "set", "args": {...}, "result": {}}

``proc`` is a session; a client whose session has ended goes on under a new name. ``phase`` is one of

    invoke   a request leaves; ``args`` hold what it asks, its session, connection, server and xid
    ok       its answer has arrived; ``result`` holds zxid, err 0 and whatever the answer carries
    fail     the answer is an error: the request has changed nothing
    info     there will be no answer: it may or may not have been carried out
    event    no request: a watch fired (``result``: type, path, zxid)
    note     no request: something worth reading in the file, such as a fault

The time of an invocation is taken before the request is sent, that of an answer after it was read, so an operation
never looks shorter than it was. The order of lines is, for one session, the order in which things reached it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

NEVER = 1 << 63

Fields = dict[str, Any]


class Event(NamedTuple):
    t_ns: int
    proc: str
    op_id: int
    phase: str
    f: str
    args: Fields
    result: Fields


class History:
    """Events of all sessions as they happen; safe to use from many threads. Kept in a file if one is named."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.events: list[Event] = []
        self._lock = Lock()
        self._next_id = 0
        self._file = path.open("w") if path is not None else None

    def invoke(self, proc: str, f: str, args: Fields) -> int:
        """A request is about to be sent; the id its outcome is recorded under."""
        with self._lock:
            op_id, self._next_id = self._next_id, self._next_id + 1
            self._add(Event(time.monotonic_ns(), proc, op_id, "invoke", f, args, {}))
            return op_id

    def outcome(self, proc: str, op_id: int, phase: str, f: str, result: Fields) -> None:
        with self._lock:
            self._add(Event(time.monotonic_ns(), proc, op_id, phase, f, {}, result))

    def happened(self, proc: str, phase: str, f: str, result: Fields) -> None:
        """An event or a note."""
        self.outcome(proc, -1, phase, f, result)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _add(self, event: Event) -> None:
        self.events.append(event)
        if self._file is not None:
            self._file.write(json.dumps(event._asdict()) + "\n")


@dataclass(slots=True, eq=False)
class Op:
    """A request from invocation to outcome. ``position`` is the line of its outcome, or of nothing."""

    proc: str
    op_id: int
    f: str
    args: Fields
    invoked_ns: int
    phase: str = "info"
    returned_ns: int = NEVER
    position: int = -1
    result: Fields = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        return self.phase in ("ok", "fail")

    @property
    def session(self) -> int:
        found: int = self.args["session"]
        return found

    @property
    def connection(self) -> int:
        found: int = self.args["connection"]
        return found

    @property
    def server(self) -> int:
        found: int = self.args["server"]
        return found

    @property
    def xid(self) -> int:
        found: int = self.args["xid"]
        return found

    @property
    def zxid(self) -> int:
        """Of the answer's header."""
        found: int = self.result["zxid"]
        return found

    @property
    def err(self) -> int:
        found: int = self.result.get("err", 0)
        return found

    def __str__(self) -> str:
        asked = {key: value for key, value in self.args.items() if key not in ("session", "connection")}
        return f"{self.proc} {self.f} {asked} -> {self.phase} {self.result}"


def load(path: Path) -> list[Event]:
    return [Event(**json.loads(line)) for line in path.read_text().splitlines()]


def operations(events: Iterable[Event]) -> list[Op]:
    """Invocations with their outcomes, in the order of invocation."""
    ops: dict[int, Op] = {}
    for position, event in enumerate(events):
        if event.phase == "invoke":
            ops[event.op_id] = Op(event.proc, event.op_id, event.f, event.args, event.t_ns)
        elif event.op_id >= 0:
            op = ops[event.op_id]
            op.phase, op.result = event.phase, event.result
            if op.answered:
                op.returned_ns, op.position = event.t_ns, position
    return list(ops.values())


def watch_events(events: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """The watch events with their positions."""
    return ((position, event) for position, event in enumerate(events) if event.phase == "event")
