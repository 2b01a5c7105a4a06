"""The base of the values that every write is made of, and a multi of tens of thousands: requests, transactions, results.

They would be NamedTuples, were those not made by interpreted code even in a compiled module, at several times the cost of
a class of one's own. What a NamedTuple gives beside that is here: values are equal if their fields are, and show them.
"""

from __future__ import annotations

from typing import ClassVar


class Value:
    """Compared by type and ``_fields``; never changed once it is made."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, name) for name in self._fields]))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({shown})"
