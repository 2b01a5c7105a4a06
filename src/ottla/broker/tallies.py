"""What became of requests, counted for the metrics where it costs the usual request nothing.

errors     by API and code, as Kafka counts them, out of every answer but those of Produce, Fetch and OffsetCommit, which are
           too many to be looked through: their handlers count what they refuse
failures   produces and fetches of a topic that failed for no reason a client is to blame for or can mend, as with Kafka
times      of the first request of each version of an API, and of every 64th: how long it was worked on, and how long its
           sender waited
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.base.recent import Recent
from ottla.wire import APIS, ApiKey, ErrorCode, Part
from ottla.wire.table import Schema, schema

Framer = Callable[[Any, int], list[Part]]

_KNOWN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)
"""What happens on brokers that are well."""


_COUNT_THEMSELVES: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT})


class Times:
    """In milliseconds."""

    __slots__ = ("local", "remote", "responsequeue", "total")

    def __init__(self) -> None:
        self.total = Recent()
        self.local = Recent()
        self.remote = Recent()
        self.responsequeue = Recent()

    def add(self, *, spent_s: float, took_s: float) -> None:
        """``spent_s`` of the time that it took it was worked on; for the rest it waited for others."""
        self.total.add(took_s * 1000)
        self.local.add(spent_s * 1000)
        self.remote.add(max(took_s - spent_s, 0.0) * 1000)

    def sent(self, *, held_s: float) -> None:
        """``held_s``: for so long the answer was there and waited for those before it."""
        self.responsequeue.add(held_s * 1000)


class Tallies:
    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self.errors: dict[int, Counter[int]] = {int(key): Counter() for key in keys}
        self.times: dict[int, Times] = {key: Times() for key in self.errors}
        self.failed_produces: Counter[str] = Counter()
        self.failed_fetches: Counter[str] = Counter()
        self.rejected_bytes: Counter[str] = Counter()

    def produce_refused(self, topic: str, code: int, size: int = 0) -> None:
        self.errors[ApiKey.PRODUCE][code] += 1
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            self.rejected_bytes[topic] += size
        if code not in _KNOWN:
            self.failed_produces[topic] += 1

    def fetch_refused(self, topic: str, code: int) -> None:
        self.errors[ApiKey.FETCH][code] += 1
        if code not in _KNOWN:
            self.failed_fetches[topic] += 1

    def commit_refused(self, code: int) -> None:
        self.errors[ApiKey.OFFSET_COMMIT][code] += 1

    def counting(self, key: ApiKey, frame: Framer) -> Framer:
        """``frame``, with the errors of what is framed counted."""
        if key in _COUNT_THEMSELVES:
            return frame
        errors, paths = self.errors[int(key)], _paths(schema(APIS[key].response.__name__))

        def counted(response: Any, correlation_id: int) -> list[Part]:
            errors.update(map(int, _codes(response, paths)))
            return frame(response, correlation_id)

        return counted


_Path = tuple[tuple[str, bool], ...]
"""Attributes from a message down to one with an error code, and whether they are lists."""


def _paths(message: Schema, struct: str | None = None) -> list[_Path]:
    fields = list(message.fields if struct is None else message.structs[struct])
    found: list[_Path] = [()] if any(field.attribute == "error_code" for field in fields) else []
    for field in fields:
        if field.type in message.structs:
            found += [((field.attribute, field.is_array), *path) for path in _paths(message, field.type)]
    return found


def _codes(response: Any, paths: list[_Path]) -> list[int]:
    """All error codes of a response, of which there may be tens of thousands."""
    codes: list[int] = []
    for path in paths:
        level = [response]
        for attribute, is_list in path:
            if is_list:
                level = [each for one in level for each in getattr(one, attribute) or ()]
            else:
                level = [each for one in level if (each := getattr(one, attribute)) is not None]
        codes += [one.error_code for one in level]
    return codes
