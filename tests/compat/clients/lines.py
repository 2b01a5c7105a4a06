"""The lines that programs around a client hear and say, for those written in Python.

A client is a class with a method for each thing it can do; ``serve`` reads requests and calls them.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

PATIENCE_S = 60
REQUEST_BYTES_MAX = 8 << 20

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record; of those to be sent nobody knows the offset, and a client may choose the time."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    offset: int = -1

    def to_json(self) -> dict[str, object]:
        return {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
            "key": _text(self.key),
            "value": _text(self.value),
            "headers": [[name, _text(value)] for name, value in self.headers],
        }

    @classmethod
    def from_json(cls, told: Mapping[str, object]) -> Record:
        partition, offset, timestamp = told["partition"], told["offset"], told["timestamp"]
        headers = told["headers"]
        assert isinstance(partition, int)
        assert isinstance(offset, int)
        assert timestamp is None or isinstance(timestamp, int)
        assert isinstance(headers, list)
        pairs = tuple((str(name), _bytes(value)) for name, value in headers)
        return cls(partition, _bytes(told["key"]), _bytes(told["value"]), pairs, timestamp, offset)


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: object) -> bytes | None:
    return None if text is None else b64decode(str(text))


@dataclass(frozen=True, slots=True)
class Visit:
    """Where to seek, by an offset or else by a time, and how many records to read there."""

    count: int
    offset: int | None = None
    time: int | None = None

    def to_json(self) -> dict[str, int]:
        place = {"time": self.time} if self.offset is None else {"offset": self.offset}
        return {"count": self.count, **{name: value for name, value in place.items() if value is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    bootstrap: str
    topic: str = ""
    partitions: int = 1
    partition: int = 0
    time: int = 0
    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False
    assigned: list[int] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)


class RefusedError(Exception):
    """What was asked failed, with Kafka's number for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client(Protocol):
    """What a program needs; what a client cannot do it leaves out."""

    version: str


Answer = Mapping[str, object]


def serve(client: Client, *, code_of: Callable[[Exception], int | None]) -> None:
    """Answers requests until nobody asks any more. ``code_of`` finds Kafka's number in an error of the client."""
    _say({"version": client.version})
    for line in sys.stdin:
        asked = json.loads(line)
        method = getattr(client, asked.pop("do"))
        records = [Record.from_json(one) for one in asked.pop("records", ())]
        visits = [Visit(**one) for one in asked.pop("visits", ())]
        try:
            _say(method(Request(**asked, records=records, visits=visits)))
        except Exception as error:  # noqa: BLE001 whatever it is, the test is to hear of it
            code = error.code if isinstance(error, RefusedError) else code_of(error)
            _say({"error": f"{type(error).__name__}: {error}", "code": -1 if code is None else code})


def _say(what: Answer) -> None:
    print(json.dumps(what), flush=True)


def visits_of(
    asked: Request, seek: Callable[[Visit], None], poll: Callable[[float], Iterable[Record]]
) -> dict[str, object]:
    """Reads what a consumer that can seek and poll finds on each visit."""
    deadline = time.monotonic() + PATIENCE_S
    visits: list[list[dict[str, object]]] = []
    for visit in asked.visits:
        seek(visit)
        found: list[Record] = []
        while len(found) < visit.count and time.monotonic() < deadline:
            found.extend(poll(0.5))
        visits.append([record.to_json() for record in found[: visit.count]])
    return {"visits": visits}
