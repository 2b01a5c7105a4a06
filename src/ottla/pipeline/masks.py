"""What says who somebody is, made into what does not.

hash       sixteen hexadecimal digits that depend on the salt: the same for the same visitor, and no way back without it
network    of an address, the network: the first three numbers of IPv4, the first three groups of IPv6
text       mail addresses and long numbers within a text become ***
drop       nothing is kept
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

DEFAULT = {
    "visitor": "hash",
    "ip": "network",
    "agent": "drop",
    "url": "text",
    "page": "text",
    "query": "text",
    "message": "text",
}
HIDDEN = "***"
_MAIL = r"[A-Za-z0-9._%+\-]+(@|%40)[A-Za-z0-9\-]+(\.[A-Za-z0-9\-]+)+"
_LONG_NUMBER = r"\b\d(?:[ \-]?\d){12,18}\b"
_FOUR = r"^(\d{1,3}\.\d{1,3}\.\d{1,3})\.\d{1,3}$"
_DIGITS = 16


def _hash(column: Column, salt: str) -> Column:
    return F.substring(F.sha2(F.concat(F.lit(salt), column), 256), 1, _DIGITS)


def _network(column: Column, _: str) -> Column:
    four = F.regexp_replace(column, _FOUR, "$1.0")
    six = F.concat(F.regexp_extract(column, r"^((?:[0-9A-Fa-f]*:){1,3})", 1), F.lit(":"))
    return F.when(column.rlike(_FOUR), four).when(column.contains(":"), six)


def _text(column: Column, _: str) -> Column:
    return F.regexp_replace(F.regexp_replace(column, _MAIL, HIDDEN), _LONG_NUMBER, HIDDEN)


WAYS: dict[str, Callable[[Column, str], Column]] = {"hash": _hash, "network": _network, "text": _text}
DROP = "drop"


def apply(frame: DataFrame, ways: Mapping[str, str], salt: str) -> DataFrame:
    masked = {name: WAYS[way](F.col(name), salt) for name, way in ways.items() if way in WAYS and name in frame.columns}
    return frame.withColumns(masked).drop(*(name for name, way in ways.items() if way == DROP))
