"""A topic is deleted and made again, and the process ends at any call of the disk: nothing of the old one is ever the new one's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest

from ottla.metadata import BrokerId, LeaderAndIsr, TopicId
from ottla.replica.errors import InconsistentTopicIdError
from ottla.replica.replicas import EPOCH_DURING_DELETE, Order
from tests.sources import COMPILED
from tests.unit.log.faults import CrashError, failing_at
from tests.unit.log.logs import contents
from tests.unit.replica.pairs import NOW_MS, WHERE, Broker

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled code calls the system past what a test puts in its place")

OLD, NEW = TopicId(b"the old one's id"), TopicId(b"the new one's id")
ONE = BrokerId(1)


def lead(broker: Broker, topic_id: TopicId, *, epoch: int = 0) -> None:
    order = Order(WHERE, topic_id, LeaderAndIsr(ONE, epoch, (ONE,), 1), (ONE,))
    broker.replicas.obey(order, now_ms=NOW_MS, now_s=0.0)


def delete_and_make_again(broker: Broker) -> None:
    """As a broker is ordered to."""
    broker.replicas.stop(WHERE, leader_epoch=EPOCH_DURING_DELETE, delete=True, now_ms=NOW_MS)
    broker.directory.sync_deletions()
    broker.directory.settle_deletions()
    lead(broker, NEW)
    broker.append("new")
    broker.replicas.checkpoint()
    broker.directory.delete_marked(now_ms=NOW_MS + broker.partition.log.config.file_delete_delay_ms)


def check_every_end(folder: Path, delete: Callable[[Broker], None] = delete_and_make_again) -> None:
    stored = Broker(folder / "stored", ONE)
    lead(stored, OLD)
    stored.append("old", "old too", "the oldest of all")
    stored.partition.log.flush(now_ms=NOW_MS)
    stored.replicas.checkpoint()
    stored.close()
    seen = set()
    for call in count():
        copy = folder / f"copy-{call}"
        shutil.copytree(folder / "stored", copy)
        broker, finished = Broker(copy, ONE), False
        lead(broker, OLD, epoch=1)
        with pytest.MonkeyPatch.context() as patch, failing_at(call, patch, CrashError()):
            try:
                delete(broker)
                finished = True
            except CrashError:
                pass
        broker.close()
        again = Broker(copy, ONE)
        assert not again.directory.corrupt
        try:
            lead(again, NEW, epoch=1)
        except InconsistentTopicIdError:
            # It ended before it had deleted anything. The controller orders that until it is done, and only then makes another.
            delete(again)
            lead(again, NEW, epoch=1)
        values = [record.value for record in contents(again.partition.log)]
        assert values in ([], [b"new"]), "what was deleted is served as the new topic's"
        assert again.high_watermark == again.end == len(values)
        assert again.directory.topic_id(again.partition.log.topic_partition) != UUID(bytes=OLD)
        again.close()
        seen.add(len(values))
        if finished:
            assert call > 10
            assert seen == {0, 1}
            return


def test_nothing_of_a_deleted_topic_comes_back_as_another(tmp_path: Path) -> None:
    check_every_end(tmp_path)


def test_a_broker_that_uses_the_directory_of_a_deleted_topic_again_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6: a log of that name is there, so it is taken for the topic's."""
    monkeypatch.setattr("ottla.replica.replicas._is_uuid_of", lambda *_: True)
    with pytest.raises(AssertionError, match="what was deleted"):
        check_every_end(tmp_path)


def test_a_deletion_that_leaves_the_directory_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: the topic is forgotten, and its records are there for the next of that name."""
    monkeypatch.setattr("ottla.replica.replicas.Replicas._delete_log", lambda *_, **__: None)
    monkeypatch.setattr("ottla.replica.replicas._is_uuid_of", lambda *_: True)

    def delete(broker: Broker) -> None:
        broker.replicas.stop(WHERE, leader_epoch=EPOCH_DURING_DELETE, delete=True, now_ms=NOW_MS)

    with pytest.raises(AssertionError, match="what was deleted"):
        check_every_end(tmp_path, delete)
