"""Where a group is to go on: the places that ``group reset`` knows, and files that hold them.

A file has a line for each partition, as Kafka's own tool exports them (``topic,partition,offset``, perhaps with the group in
front), or as ``group reset --format jsonl`` prints them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from typing import NamedTuple

from ottla.cli.client.ranges import END, START, Bound, RangeError, parse_range

Partition = tuple[str, int]


class ResetError(ValueError):
    """Something that names no offset; the message says what would."""


class Place(NamedTuple):
    """An offset in each partition: by a bound as ``consume -o`` has it, or so far from where the group is."""

    bound: Bound | None = None
    shift: int = 0


def parse_place(text: str, *, now_ms: int) -> Place:
    """``start``, ``end``, n, +n, -n or @T. Kafka's words for the first two will do."""
    if text in _WORDS:
        return Place(_WORDS[text])
    try:
        found = parse_range(text, now_ms=now_ms)
    except RangeError as error:
        raise ResetError(str(error)) from None
    if found.stop is not None:
        raise ResetError(f"{text!r} is a range, and a group goes on at one place")
    return Place(found.start)


_WORDS = {"earliest": START, "latest": END}


def parse_topics(texts: Iterable[str]) -> dict[str, list[int]]:
    """``TOPIC`` or ``TOPIC:0,1``; no numbers mean all partitions, whatever else is said of the topic."""
    wanted: dict[str, list[int]] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if colon and not all(number.isascii() and number.isdigit() for number in numbers.split(",")):
            raise ResetError(f"{text!r} is not of the form TOPIC or TOPIC:0,1")
        if not colon:
            wanted[topic] = []
        elif wanted.get(topic) != []:
            wanted[topic] = sorted({*wanted.get(topic, []), *map(int, numbers.split(","))})
    return wanted


def parse_offsets(lines: Iterable[str], group: str) -> dict[Partition, int]:
    """The offsets in a file; those of other groups are passed over."""
    offsets: dict[Partition, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            found = _from_json(text) if text.startswith("{") else _from_csv(text)
        except (ValueError, KeyError, TypeError):
            raise ResetError(f"line {number}: {text!r} is neither topic,partition,offset nor JSON of a reset") from None
        owner, topic, partition, offset = found
        if offset < 0 or partition < 0:
            raise ResetError(f"line {number}: partitions and offsets are not negative")
        if owner in (None, group):
            offsets[topic, partition] = offset
    return offsets


def _from_json(text: str) -> tuple[str | None, str, int, int]:
    row = json.loads(text)
    return row.get("group"), str(row["topic"]), int(row["partition"]), int(row["new_offset"])


def _from_csv(text: str) -> tuple[str | None, str, int, int]:
    fields = next(csv.reader([text]))
    *owner, topic, partition, offset = (each.strip() for each in fields)
    if len(owner) > 1:
        raise ValueError(text)
    return (owner[0] if owner else None), topic, int(partition), int(offset)
