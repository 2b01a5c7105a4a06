"""A client's watches as the client knows them, and the events they must bring: all, once, in order."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.keeper.proto.opcodes import EventType
from ottla.keeper.proto.records import SetWatchesRequest
from tests.sim.loop import Violation
from tests.sim.model import Change, Changed, split
from tests.sim.truth import Truth
from tests.sim.wire import Event

_OWN = {
    Change.CREATED: EventType.NODE_CREATED,
    Change.DELETED: EventType.NODE_DELETED,
    Change.SET: EventType.NODE_DATA_CHANGED,
}


class Watching:
    """Follows the committed history from zxid to zxid; what it predicts is compared with what came."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.data: dict[str, None] = {}
        self.exist: dict[str, None] = {}
        self.child: dict[str, None] = {}
        self.persistent: dict[str, None] = {}
        self.recursive: dict[str, None] = {}
        self.zxid = 0
        """The history has been followed up to here."""
        self.received: list[Event] = []
        """Events since then."""

    def __len__(self) -> int:
        return sum(map(len, (self.data, self.exist, self.child, self.persistent, self.recursive)))

    def reached(self, zxid: int) -> None:
        """A reply shows the tree as of ``zxid``: every event up to there must have come before it."""
        for event in self._expected(zxid):
            if not self.received:
                raise Violation(f"Z8: no {event} before a reply of 0x{zxid:x}")
            self._take(event)
        if self.received:
            raise Violation(f"Z8: {self.received[0]} before a reply of 0x{zxid:x}, and no watch explains it")
        self.zxid = max(self.zxid, zxid)

    def disconnected(self) -> None:
        """The connection is gone, and with it perhaps events; those that came were the first that were due."""
        late = [event for event in self.received if event.zxid == -1]
        for event in late:  # of watches being re-registered; as of which zxid, the lost reply would have said
            self._spend(event)
        if late:
            self.received = []
        if self.received:
            last = max(event.zxid for event in self.received)
            for event in self._expected(last):
                if not self.received:
                    break
                self._take(event)
            if self.received:
                raise Violation(f"Z8: {self.received[0]}, and no watch explains it")

    def _take(self, event: Event) -> None:
        if self.received[0] != event:
            raise Violation(f"Z8: {self.received[0]} came where {event} was due")
        del self.received[0]
        self._spend(event)

    def _spend(self, event: Event) -> None:
        if event.type == EventType.NODE_CHILDREN_CHANGED:
            self.child.pop(event.path, None)
            return
        self.data.pop(event.path, None)
        self.exist.pop(event.path, None)
        if event.type == EventType.NODE_DELETED:
            self.child.pop(event.path, None)

    def _expected(self, upto: int) -> Iterator[Event]:
        """Lazily: each event is spent before the next is looked for."""
        truth = self._truth
        changes = truth.model.changes
        for index in truth.between(self.zxid, upto):
            for changed in changes[index]:
                yield from self._caused(changed, truth.committed[index])

    def _caused(self, changed: Changed, zxid: int) -> Iterator[Event]:
        change, path = changed
        own = path in self.data or path in self.exist or path in self.persistent
        if own or self._is_below_recursive(path) or (change is Change.DELETED and path in self.child):
            yield Event(zxid, _OWN[change], path)
        if change is not Change.SET:
            parent = split(path)[0]
            if parent in self.child or parent in self.persistent:
                yield Event(zxid, EventType.NODE_CHILDREN_CHANGED, parent)

    def _is_below_recursive(self, path: str) -> bool:
        if not self.recursive:
            return False
        return any(at in ("/", path) or path.startswith(f"{at}/") for at in self.recursive)

    # Reconnecting.

    def request(self, last_zxid: int) -> SetWatchesRequest:
        return SetWatchesRequest(
            last_zxid, list(self.data), list(self.exist), list(self.child), list(self.persistent), list(self.recursive)
        )

    def restored(self, request: SetWatchesRequest, zxid: int) -> int:
        """The reply to ``request``, as of ``zxid``: late events have come before it; how many there were."""
        due = list(self._missed(request, zxid))
        if self.received != due:
            raise Violation(f"Z8: {self.received} instead of {due} on re-registering watches at 0x{zxid:x}")
        self.received = []
        for event in due:
            self._spend(event)
        self.zxid = zxid
        return len(due)

    def _missed(self, request: SetWatchesRequest, zxid: int) -> Iterator[Event]:
        model, since = self._truth.model, request.relative_zxid
        for path in request.data:
            node = model.at(path, zxid)
            if node is None:
                yield Event(-1, EventType.NODE_DELETED, path)
            elif node.mzxid > since:
                yield Event(-1, EventType.NODE_DATA_CHANGED, path)
        for path in request.exist:
            if model.at(path, zxid) is not None:
                yield Event(-1, EventType.NODE_CREATED, path)
        for path in request.child:
            node = model.at(path, zxid)
            if node is None:
                yield Event(-1, EventType.NODE_DELETED, path)
            elif node.pzxid > since:
                yield Event(-1, EventType.NODE_CHILDREN_CHANGED, path)
