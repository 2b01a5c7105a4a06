"""What the ensemble has agreed on, known as soon as a leader decides it: the judge of everything else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ottla.keeper.proto.txns import Entry, Txn, decode_txn
from tests.sim.loop import Violation
from tests.sim.model import Model


class Truth:
    """The committed history, and whatever was ever proposed or acknowledged."""

    def __init__(self) -> None:
        self.model = Model()
        self.committed: list[int] = []
        self.txns: dict[int, Txn] = {}
        self.acked_zxid = 0
        """The newest write that some client knows to be done."""
        self._proposed: dict[int, bytes] = {}

    @property
    def last_zxid(self) -> int:
        return self.committed[-1] if self.committed else 0

    def __contains__(self, zxid: int) -> bool:
        return zxid in self.txns or zxid == 0

    def index(self, zxid: int) -> int:
        """How many committed transactions there are up to ``zxid``."""
        return bisect_right(self.committed, zxid)

    def proposed(self, entries: Sequence[Entry]) -> None:
        """Some server logs these. A zxid means the same everywhere, committed or not."""
        for zxid, raw in entries:
            before = self._proposed.setdefault(zxid, raw)
            if before != raw:
                raise Violation(f"Z12: 0x{zxid:x} has been given to two transactions")

    def commit(self, entries: Sequence[Entry]) -> list[Txn]:
        """A leader decided that these follow what was committed before."""
        for entry in entries:
            if entry.zxid <= self.last_zxid:
                raise Violation(f"Z4: 0x{entry.zxid:x} committed behind 0x{self.last_zxid:x}")
            txn = decode_txn(entry.raw)
            if txn.zxid != entry.zxid:
                raise Violation(f"Z4: entry 0x{entry.zxid:x} holds transaction 0x{txn.zxid:x}")
            self.model.apply(txn)
            self.committed.append(entry.zxid)
            self.txns[entry.zxid] = txn
        return [self.txns[entry.zxid] for entry in entries]

    def between(self, after: int, upto: int) -> range:
        """The indexes of the committed transactions in (after, upto]."""
        return range(self.index(after), self.index(upto))
