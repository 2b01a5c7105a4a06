"""What a member in Python says, and how it ends."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Mapping
from threading import Event

SESSION_MS = 12_000
HEARTBEAT_MS = 1_000

stopping = Event()


def begin() -> tuple[str, str, str]:
    """Bootstrap, topic and group."""
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    bootstrap, topic, group = sys.argv[1:4]
    return bootstrap, topic, group


def assignor() -> str:
    return sys.argv[4]


def say(what: Mapping[str, object]) -> None:
    print(json.dumps(what), flush=True)


def say_read(partition: int, offset: int, value: bytes | None) -> None:
    say({"read": [partition, offset, int(value or b"-1")]})


def say_committed(offsets: Mapping[int, int]) -> None:
    say({"committed": {str(partition): offset for partition, offset in offsets.items()}})


def say_assigned(partitions: Iterable[int], *, revoked: bool = False) -> None:
    say({"revoked" if revoked else "assigned": sorted(partitions)})
