"""A client as the tests see it: its program is running, and each method is one request to it."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.compat.clients.lines import Record, RefusedError, Visit
from tests.compat.clients.roster import Entry
from tests.peers.conversation import Conversation
from tests.peers.maven import CHECKOUT

ANSWER_WITHIN_S = 180


class Client:
    """One client of the roster. It serves any number of clusters: every request names the one it is for."""

    def __init__(self, entry: Entry, log: Path) -> None:
        self.entry = entry
        self.log = log
        self._program = Conversation(entry.command(), log=log, cwd=CHECKOUT)
        self.version = str(self._heard(since=0)["version"])

    def can(self, *things: str) -> bool:
        return self.entry.lacks.isdisjoint(things)

    def _heard(self, since: int) -> dict[str, Any]:
        try:
            line = self._program.hear("{", timeout_s=ANSWER_WITHIN_S, since=since)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log.read_text(errors='replace')[-3000:]}") from None
        told: dict[str, Any] = json.loads(line)
        return told

    def _ask(self, do: str, bootstrap: str, **more: object) -> dict[str, Any]:
        since = self._program.mark()
        self._program.say(json.dumps({"do": do, "bootstrap": bootstrap, **more}))
        told = self._heard(since)
        if "error" in told:
            raise RefusedError(told["code"], f"{self.entry.name}: {told['error']}")
        return told

    def create(self, bootstrap: str, topic: str, *, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        self._ask("create", bootstrap, topic=topic, partitions=partitions, config=config or {})

    def grow(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._ask("grow", bootstrap, topic=topic, partitions=partitions)

    def delete(self, bootstrap: str, topic: str) -> None:
        self._ask("delete", bootstrap, topic=topic)

    def topics(self, bootstrap: str) -> list[str]:
        return sorted(self._ask("list", bootstrap)["topics"])

    def describe(self, bootstrap: str, topic: str) -> list[tuple[int, int, list[int], list[int]]]:
        """Number, leader, replicas and those in sync, of each partition."""
        return sorted(tuple(row) for row in self._ask("describe", bootstrap, topic=topic)["partitions"])

    def configs(self, bootstrap: str, topic: str) -> dict[str, str | None]:
        found: dict[str, str | None] = self._ask("configs", bootstrap, topic=topic)["configs"]
        return found

    def offsets(self, bootstrap: str, topic: str, *, partition: int = 0, time: int = 0) -> tuple[int, int, int]:
        """The earliest, the latest, and the first at or after a time."""
        told = self._ask("offsets", bootstrap, topic=topic, partition=partition, time=time)
        return told["earliest"], told["latest"], told["at"]

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: list[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """The offsets the client was told, none where it does not tell them."""
        sent = [record.to_json() for record in records]
        options = {"topic": topic, "codec": codec, "acks": acks, "idempotent": idempotent}
        return list(self._ask("produce", bootstrap, **options, records=sent).get("offsets", ()))

    def visit(
        self, bootstrap: str, topic: str, *visits: Visit, assigned: list[int] | None = None
    ) -> list[list[Record]]:
        told = self._ask(
            "read", bootstrap, topic=topic, assigned=assigned or [0], visits=[visit.to_json() for visit in visits]
        )
        return [[Record.from_json(one) for one in found] for found in told["visits"]]

    def read(self, bootstrap: str, topic: str, count: int, *, assigned: list[int] | None = None) -> list[Record]:
        """From the first offset on, by partition; those of one partition in the order in which they came."""
        [found] = self.visit(bootstrap, topic, Visit(count, offset=0), assigned=assigned)
        return sorted(found, key=lambda record: record.partition)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.__exit__(kind, error, trace)
