"""The option ``where``: conditions on where a record lies, applied before anything of it is decoded, in batches and streams alike.

    timestamp >= '2026-01-31T10:00:00Z' and partition in (0, 2) and key = 'user 7'

    names       topic, partition, offset, timestamp, key
    relations   =  <  <=  >  >=  in (...)  between ... and ...
    constants   numbers, texts in single quotes; a timestamp is an instant in ISO 8601, in UTC unless it says otherwise, or milliseconds

It belongs to a frame and not to a query, so nothing that Spark keeps of one query can get into another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from ottla.scan.columns import EVERYTHING
from ottla.scan.columns import Filter as Passing
from ottla.scan.errors import OptionError
from pyspark_ottla.filters import push

Constant = int | str | bytes | datetime
NAMES = ("topic", "partition", "offset", "timestamp", "key")
_TOKEN = re.compile(r"\s*([A-Za-z_]+|-?\d+|'(?:[^']|'')*'|<=|>=|[=<>(),])")
_RELATIONS = {"=": EqualTo, "<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_where(text: str | None) -> Passing:
    """What passes; everything if nothing is asked."""
    if text is None:
        return EVERYTHING
    try:
        wanted = list(_Reader(text).filters())
    except (ValueError, OverflowError) as error:
        raise OptionError(f"where={text}: {error}") from None
    passing, left = push(wanted)
    if left:
        raise OptionError(f"where={text}: {left[0]} compares with a constant of another kind")
    return passing


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))

    def filters(self) -> Iterator[Filter]:
        while True:
            yield from self._condition()
            if not self._tokens:
                return
            self._expect("and")

    def _condition(self) -> Iterator[Filter]:
        name = self._next().lower().removeprefix("_")
        if name not in NAMES:
            raise ValueError(f"there is no {name}; conditions are on {', '.join(NAMES)}")
        relation = self._next().lower()
        at = (name,)
        if relation in _RELATIONS:
            yield _RELATIONS[relation](at, self._constant(name))
        elif relation == "between":
            yield GreaterThanOrEqual(at, self._constant(name))
            self._expect("and")
            yield LessThanOrEqual(at, self._constant(name))
        elif relation == "in":
            self._expect("(")
            among = [self._constant(name)]
            while (mark := self._next()) == ",":
                among.append(self._constant(name))
            if mark != ")":
                raise ValueError(f"{mark} where , or ) should be")
            yield In(at, tuple(among))
        else:
            raise ValueError(f"{relation} is no relation: give one of {', '.join(_RELATIONS)}, in, between")

    def _constant(self, name: str) -> Constant:
        token = self._next()
        if not token.startswith("'"):
            number = int(token)
            return _EPOCH + timedelta(milliseconds=number) if name == "timestamp" else number
        text = token[1:-1].replace("''", "'")
        if name == "timestamp":
            return datetime.fromisoformat(text)
        return text.encode() if name == "key" else text

    def _next(self) -> str:
        if not self._tokens:
            raise ValueError("it ends too soon")
        return self._tokens.pop(0)

    def _expect(self, wanted: str) -> None:
        found = self._next()
        if found.lower() != wanted:
            raise ValueError(f"{found} where {wanted} should be")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"what is {text[at:].strip()!r}?")
        yield match[1]
        at = match.end()
