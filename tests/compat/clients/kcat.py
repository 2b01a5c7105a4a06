"""kcat, a program for the command line: what it is told by options here, and what it prints is read back.

It makes no topics, sends no times and tells no offsets. Its headers hold for all the records of a run, and so do its
ways with what is empty, which is either sent as it is or as null.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from itertools import groupby

from tests.compat.clients.lines import (
    PATIENCE_S,
    REQUEST_BYTES_MAX,
    Answer,
    Headers,
    Record,
    RefusedError,
    Request,
    Visit,
    serve,
)

BETWEEN_RECORDS = b"\x1e\x1e"
BEHIND_KEYS = b"\x1f\x1f"
SHOWN = r"%p %o %T %K %S\n%h\n%k%s"

CODES = {"Message size too large": 10, "Unknown topic or partition": 3}


def kcat(asked: Request, *words: str, given: bytes = b"") -> bytes:
    command = ["kcat", "-b", asked.bootstrap, "-m", str(PATIENCE_S), *words]
    done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE_S + 15, check=False)
    said = done.stderr.decode(errors="replace")
    if done.returncode != 0 or "Delivery failed" in said:
        raise RefusedError(next((code for text, code in CODES.items() if text in said), -1), said)
    return done.stdout


def _version() -> str:
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+) .*librdkafka (\S+)", said)
    assert found is not None, said
    return f"{found[1]} (librdkafka {found[2]})"


class Kcat:
    version = _version()

    def list(self, asked: Request) -> Answer:
        return {"topics": re.findall(r'^  topic "(.*?)" with', kcat(asked, "-L").decode(), re.MULTILINE)}

    def describe(self, asked: Request) -> Answer:
        said = kcat(asked, "-L", "-t", asked.topic).decode()
        if "Unknown topic or partition" in said:
            raise RefusedError(3, said)
        rows = re.findall(r"partition (\d+), leader (-?\d+), replicas: ([\d,]*), isrs: ([\d,]*)", said)
        return {
            "partitions": [
                [int(number), int(leader), *([int(one) for one in group.split(",")] for group in groups)]
                for number, leader, *groups in rows
            ]
        }

    def offsets(self, asked: Request) -> Answer:
        def at(time: int) -> int:
            said = kcat(asked, "-Q", "-t", f"{asked.topic}:{asked.partition}:{time}").decode()
            return int(said.rsplit(" ", 1)[1])

        return {"earliest": at(-2), "latest": at(-1), "at": at(asked.time)}

    def produce(self, asked: Request) -> Answer:
        options = ["-P", "-t", asked.topic, "-z", asked.codec, "-X", f"acks={asked.acks}"]
        options += [
            "-X",
            f"message.max.bytes={REQUEST_BYTES_MAX}",
            "-X",
            f"enable.idempotence={asked.idempotent}".lower(),
        ]
        options += ["-D", _escaped(BETWEEN_RECORDS), "-K", _escaped(BEHIND_KEYS)]
        for (partition, headers, nulls), records in groupby(asked.records, key=_alike):
            told = [word for name, value in headers for word in ("-H", _header(name, value))]
            lines = BETWEEN_RECORDS.join((one.key or b"") + BEHIND_KEYS + (one.value or b"") for one in records)
            empty = ["-Z"] if nulls else []
            kcat(asked, *options, *told, *empty, "-p", str(partition), given=lines + BETWEEN_RECORDS)
        return {}

    def read(self, asked: Request) -> Answer:
        return {"visits": [[one.to_json() for one in _visit(asked, visit)] for visit in asked.visits]}


def _visit(asked: Request, visit: Visit) -> Iterator[Record]:
    where = f"s@{visit.time}" if visit.offset is None else str(visit.offset)
    # Without a partition it reads all of them.
    partition = ["-p", str(asked.assigned[0])] if len(asked.assigned) == 1 else []
    options = ["-C", "-q", "-t", asked.topic, *partition, "-o", where, "-c", str(visit.count), "-f", SHOWN]
    said, place = kcat(asked, *options), 0
    while place < len(said):
        first = said.index(b"\n", place)
        second = said.index(b"\n", first + 1)
        number, offset, time, key_bytes, value_bytes = (int(word) for word in said[place:first].split())
        middle = second + 1 + max(key_bytes, 0)
        place = middle + max(value_bytes, 0)
        key = None if key_bytes < 0 else said[second + 1 : middle]
        value = None if value_bytes < 0 else said[middle:place]
        yield Record(number, key, value, _headers(said[first + 1 : second]), time, offset)


def _alike(record: Record) -> tuple[int, Headers, bool]:
    return record.partition, record.headers, record.key is None or record.value is None


def _escaped(text: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text)


def _header(name: str, value: bytes | None) -> str:
    return name if value is None else f"{name}={value.decode()}"


def _headers(shown: bytes) -> Headers:
    pairs = (pair.split("=", 1) for pair in shown.decode().split(",") if pair)
    return tuple((name, None if value == "NULL" else value.encode()) for name, value in pairs)


if __name__ == "__main__":
    serve(Kcat(), code_of=lambda _error: None)
