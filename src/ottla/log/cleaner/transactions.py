"""Transactions as a compaction meets them: batch by batch, in the order of the log.

What was aborted is known from the transaction index before its records come. Records of aborted transactions go. The mark
that ends a transaction may go once no record of it was met any more; the entry of an aborted one in the index goes with the
mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.log.txnindex import AbortedTxn
from ottla.records import BatchHeader, ControlType, EndTransactionMarker


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        """Producers with an aborted transaction of which records were met."""
        self._committed: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """A batch of records comes; whether it belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def may_drop(
        self, header: BatchHeader, marker: EndTransactionMarker | None, note: Callable[[AbortedTxn], object]
    ) -> bool:
        """A mark comes; whether nothing of its transaction is left. ``note`` hears of an aborted one that is still needed."""
        self._begin_up_to(header.last_offset)
        if marker is None:
            return header.record_count == 0  # emptied before; what other control records mean is not known here
        if marker.control_type is ControlType.COMMIT:
            was_met = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not was_met
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or header.producer_id not in self._met:
            return True
        self._met.discard(header.producer_id)
        note(aborted)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            aborted = self._to_come.pop()
            self._aborted.setdefault(aborted.producer_id, aborted)
