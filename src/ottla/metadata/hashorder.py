"""The order in which Kafka's own maps come out, so that our JSON has the very bytes of Kafka's.

Kafka builds JSON objects from hash maps of Scala and Java and writes the keys in the order of iteration. Where the keys
are always the same, that order is written down with the znode. Where they are data (partition numbers, configuration
names, listeners), it follows from the strings, and differs by the kind of map:

    Scala, mutable      a table of 2ⁿ buckets, grown before it is three quarters full; a bucket is sorted by hash
    Java, HashMap       the same table; a bucket keeps the order of arrival
    Java, Properties    the same, but growing the table turns parts of a bucket around
    Scala, immutable    up to four entries in the order of arrival; then a trie over 5 bits of the hash at a time, a
                        node's own entries before those of its children
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from mypy_extensions import i64

V = TypeVar("V")

_TABLE_MIN: Final = 16
_TRIE_BITS: Final = 5
_ARRAY_MAP_MAX: Final = 4
_32_BITS: Final = 0xFFFF_FFFF


def string_hash(text: str) -> int:
    """``String.hashCode`` of Java, as an unsigned 32-bit number. It counts UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed: i64 = 0
    at: i64 = 0
    while at < len(units):
        high: i64 = units[at]
        low: i64 = units[at + 1]
        hashed = hashed * 31 + (high << 8 | low) & _32_BITS
        at += 2
    return hashed


def mutable_order(values: Mapping[str, V]) -> dict[str, V]:
    """As a ``scala.collection.mutable.HashMap`` that was filled one by one."""
    size = _table_size(len(values))
    spread = {key: _spread(key) for key in values}
    return {key: values[key] for key in sorted(values, key=lambda key: (spread[key] & size - 1, _signed(spread[key])))}


def java_order(values: Mapping[str, V]) -> dict[str, V]:
    """As a ``java.util.HashMap`` that was filled in the order of ``values``."""
    size = _table_size(len(values))
    return {key: values[key] for key in sorted(values, key=lambda key: _spread(key) & size - 1)}


def properties_order(values: Mapping[str, V]) -> dict[str, V]:
    """As ``java.util.Properties``, a ConcurrentHashMap inside, that was filled in the order of ``values``."""
    table: list[list[str]] = [[] for _ in range(_TABLE_MIN)]
    for count, key in enumerate(values, 1):
        table[_spread(key) & len(table) - 1].append(key)
        if count >= len(table) * 3 // 4:
            table = _grown(table)
    return {key: values[key] for bucket in table for key in bucket}


def immutable_order(values: Mapping[str, V]) -> dict[str, V]:
    """As a ``scala.collection.immutable.Map`` that was filled in the order of ``values``."""
    return dict(values) if len(values) <= _ARRAY_MAP_MAX else trie_order(values)


def trie_order(values: Mapping[str, V]) -> dict[str, V]:
    """As a ``scala.collection.immutable.HashMap``, which is a trie however few its entries are."""
    return {key: values[key] for _, key in _trie([(_improve(string_hash(key)), key) for key in values])}


def _table_size(entries: int) -> int:
    size = _TABLE_MIN
    while entries >= size * 3 // 4:
        size *= 2
    return size


def _grown(table: list[list[str]]) -> list[list[str]]:
    """Twice the table. The longest tail of a bucket that stays together is kept; what is before it is turned around."""
    grown: list[list[str]] = [[] for _ in range(2 * len(table))]
    for bucket in table:
        homes = [_spread(key) & len(grown) - 1 for key in bucket]
        tail = len(bucket)
        while tail > 0 and homes[tail - 1] == homes[-1]:
            tail -= 1
        for key, home in zip(bucket[tail:], homes[tail:], strict=True):
            grown[home].append(key)
        for key, home in zip(bucket[:tail], homes[:tail], strict=True):
            grown[home].insert(0, key)
    return grown


def _spread(key: str) -> int:
    hashed = string_hash(key)
    return hashed ^ hashed >> 16


def _signed(hashed: int) -> int:
    return hashed - (1 << 32) if hashed >> 31 else hashed


def _improve(hashed: int) -> int:
    hashed = hashed + ~(hashed << 9) & _32_BITS
    hashed ^= hashed >> 14
    hashed = hashed + (hashed << 4) & _32_BITS
    return hashed ^ hashed >> 10


def _trie(entries: list[tuple[int, str]], shift: int = 0) -> Iterator[tuple[int, str]]:
    """Walk the trie of ``entries``, which agree in the lowest ``shift`` bits of their hashes."""
    if shift > 32:
        yield from entries  # equal hashes: one node for all, in the order of arrival
        return
    slots: dict[int, list[tuple[int, str]]] = {}
    for entry in entries:
        slots.setdefault(entry[0] >> shift & (1 << _TRIE_BITS) - 1, []).append(entry)
    ordered = [slots[slot] for slot in sorted(slots)]
    yield from (slot[0] for slot in ordered if len(slot) == 1)
    for slot in ordered:
        if len(slot) > 1:
            yield from _trie(slot, shift + _TRIE_BITS)
