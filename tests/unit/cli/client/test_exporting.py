from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from ottla.cli.client.exporting import OtherTopicError, Request, export
from ottla.scan.cluster import Cluster, TopicPartition
from ottla.scan.settings import Settings


class Idle(Cluster):
    """One topic of one partition, all of which is exported already."""

    def __init__(self, *, topic_id: bytes | None = bytes(15) + b"\7", cluster_id: str = "one", end: int = 0) -> None:
        super().__init__(Settings(()))
        self._ids = cluster_id, topic_id
        self._end = end

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        return {topic: [0] for topic in topics}

    def identity(self, topic: str) -> tuple[str | None, bytes | None]:
        return self._ids

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(wanted, self._end)


def run(cluster: Cluster, folder: Path) -> int:
    return len(list(export(cluster, Request("clicks", folder, "jsonl"))))


def test_another_topic_of_the_same_name_is_not_exported_behind_the_first(tmp_path: Path) -> None:
    assert run(Idle(), tmp_path) == 0
    assert run(Idle(), tmp_path) == 0
    with pytest.raises(OtherTopicError, match=r"another topic, whose id was A{20}Bw and now is A{20}CA"):
        run(Idle(topic_id=bytes(15) + b"\x08"), tmp_path)
    with pytest.raises(OtherTopicError, match="another cluster"):
        run(Idle(cluster_id="two"), tmp_path)


def test_a_topic_that_ends_before_what_was_exported_is_another(tmp_path: Path) -> None:
    (tmp_path / f"clicks-0-{0:020d}-{5:020d}.jsonl").touch()
    with pytest.raises(OtherTopicError, match="up to offset 5, and now it ends at 4"):
        run(Idle(topic_id=None, end=4), tmp_path)
    assert run(Idle(topic_id=None, end=5), tmp_path) == 0
    # What a directory of earlier times, or a broker that knows no ids, left open is no reason to refuse.
    assert run(Idle(end=5), tmp_path) == 0


def test_partitions_that_are_gone_were_those_of_another_topic(tmp_path: Path) -> None:
    (tmp_path / f"clicks-3-{0:020d}-{5:020d}.jsonl").touch()
    with pytest.raises(OtherTopicError, match="clicks-3 up to offset 5, and now it ends at 0"):
        run(Idle(end=9), tmp_path)
