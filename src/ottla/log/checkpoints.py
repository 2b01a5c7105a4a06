r"""Small text files, byte for byte as Kafka writes them.

recovery-point-offset-checkpoint    ┐  0\n COUNT\n then a line ``TOPIC PARTITION OFFSET`` for each
log-start-offset-checkpoint         │
replication-offset-checkpoint       │
cleaner-offset-checkpoint           ┘
leader-epoch-checkpoint                0\n COUNT\n then a line ``EPOCH START_OFFSET`` for each
partition.metadata                     version: 0\n topic_id: ID
meta.properties                        #\n #DATE\n broker.id, version, cluster.id
.kafka_cleanshutdown                   {"version":0,"brokerEpoch":-1}
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from ottla.base.errors import CorruptionError
from ottla.base.properties import format_properties, parse_properties
from ottla.log.files import read_if_there, write_whole

_VERSION = "0"
_PARTITION_METADATA = re.compile(r"version: (\d+)\s+topic_id: (\S+)\s*")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """An offset checkpoint; empty where there is no file yet."""
    offsets = {}
    for line in _read_lines(path):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CorruptionError(f"{path}: malformed line {line!r}") from error
    return offsets


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    _write_lines(path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()))


class OffsetsFile:
    """An offset checkpoint that is written again and again, by the event loop or in another thread.

    What was collected later stays, whoever is first to write, and what is on disk already is not written once more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = Lock()
        self._collected = 0
        self._written = 0
        self._content: Mapping[TopicPartition, int] | None = None
        """What is on disk, if that is known."""

    def collect(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """What is to be there as of now; writes it when it is called, in any thread."""
        self._collected += 1
        return partial(self._write, self._collected, offsets)

    def _write(self, number: int, offsets: Mapping[TopicPartition, int]) -> None:
        with self._writing:
            if number < self._written:
                return
            self._written = number
            if offsets == self._content:
                return
            self._content = None
            write_offsets(self._path, offsets)
            self._content = offsets


def read_epochs(path: Path) -> list[tuple[int, int]]:
    """Leader epochs and their start offsets."""
    found = []
    for line in _read_lines(path):
        try:
            epoch, start_offset = line.split()
            found.append((int(epoch), int(start_offset)))
        except ValueError as error:
            raise CorruptionError(f"{path}: malformed line {line!r}") from error
    return found


def write_epochs(path: Path, epochs: Iterable[tuple[int, int]]) -> None:
    _write_lines(path, (f"{epoch} {start_offset}" for epoch, start_offset in epochs))


def read_topic_id(path: Path) -> UUID | None:
    """What ``partition.metadata`` holds; None where there is no such file."""
    data = read_if_there(path)
    if data is None:
        return None
    match = _PARTITION_METADATA.fullmatch(data.decode())
    if match is None or match[1] != _VERSION:
        raise CorruptionError(f"{path} cannot be read: {data!r}")
    return UUID(bytes=urlsafe_b64decode(match[2] + "=="))


def encode_topic_id(topic_id: UUID) -> bytes:
    """What ``partition.metadata`` is to hold."""
    text = urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"version: {_VERSION}\ntopic_id: {text}".encode()


class MetaProperties(NamedTuple):
    """Whom a log directory belongs to."""

    broker_id: int
    cluster_id: str


def read_meta_properties(path: Path) -> MetaProperties | None:
    data = read_if_there(path)
    if data is None:
        return None
    try:
        properties = parse_properties(data.decode())
        broker_id = properties.get("broker.id") or properties["node.id"]
        return MetaProperties(int(broker_id), properties["cluster.id"])
    except KeyError as error:
        missing = "broker.id" if error.args[0] == "node.id" else error.args[0]
        raise CorruptionError(f"{path} cannot be read: it says no {missing}") from error
    except ValueError as error:
        raise CorruptionError(f"{path} cannot be read: {error}") from error


def write_meta_properties(path: Path, meta: MetaProperties, *, now_ms: int) -> None:
    """Java puts an empty comment and the date before its properties, so that is there, too."""
    date = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    pairs = (("broker.id", str(meta.broker_id)), ("version", _VERSION), ("cluster.id", meta.cluster_id))
    write_whole(path, f"#\n#{date}\n{format_properties(pairs)}".encode())


def write_clean_shutdown(path: Path, *, broker_epoch: int) -> None:
    document = {"version": 0, "brokerEpoch": broker_epoch}
    write_whole(path, json.dumps(document, separators=(",", ":")).encode())


def read_clean_shutdown(path: Path) -> int | None:
    """The epoch of the broker that stopped cleanly (-1: not known); None if none did."""
    data = read_if_there(path)
    if data is None:
        return None
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1  # Kafka before 3.7 leaves the file empty


def _read_lines(path: Path) -> list[str]:
    data = read_if_there(path)
    if not data:  # Kafka makes such a file before it has anything to put into it
        return []
    lines = data.decode().splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION or lines[1].strip() != str(len(lines) - 2):
        raise CorruptionError(f"{path}: version or number of lines is wrong")
    return lines[2:]


def _write_lines(path: Path, entries: Iterable[str]) -> None:
    lines = list(entries)
    write_whole(path, "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode())
