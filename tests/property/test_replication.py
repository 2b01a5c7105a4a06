"""Replication under a seed (``tests/unit/replica/world.py``): what is acknowledged stays, and a mistake does not go unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.metadata.znodes.topics import LeaderAndIsr, Replicas
from ottla.records import Codec, build_batch, frames, read_batch
from ottla.records.batch import read_header
from ottla.replica.leadership import Leadership
from ottla.replica.partition import Partition
from tests.sources import COMPILED
from tests.unit.replica.pairs import NOW_MS
from tests.unit.replica.world import World

SEEDS = 15
SEEDS_FOR_A_MISTAKE = 100


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    World(tmp_path, seed).run()


def acknowledge_alone(patch: pytest.MonkeyPatch) -> None:
    """L1: the leader's log counts, and no other."""
    patch.setattr(Leadership, "replicated_to", lambda _self, end_offset: end_offset)


def count_committed_only(patch: pytest.MonkeyPatch) -> None:
    """L8: who was proposed and may be elected already does not count."""

    def replicated_to(self: Leadership, end_offset: int) -> int:
        ends = [self.followers[each].log_end_offset for each in self.committed if each in self.followers]
        return min([end_offset, *ends])

    patch.setattr(Leadership, "replicated_to", replicated_to)


def shrink_unasked(patch: pytest.MonkeyPatch) -> None:
    """L8: who is to leave does not count any more, though the controller may still elect him."""
    patch.setattr(Leadership, "maximal", property(lambda self: frozenset(self.proposed or self.committed)))


def join_early(patch: pytest.MonkeyPatch) -> None:
    """L9: whoever fetches joins, whatever he lacks."""

    def joins(self: Leadership, replica: int, **_: int) -> bool:
        return self.proposed is None and replica in self.followers and replica not in self.committed

    patch.setattr(Leadership, "joins", joins)


def keep_what_diverged(patch: pytest.MonkeyPatch) -> None:
    """L2, L4: a follower goes on from the end of its log, whatever its new leader has there."""
    patch.setattr(Partition, "divergence", lambda *_arguments, **_named: None)


def encode_again(patch: pytest.MonkeyPatch) -> None:
    """L3: a follower unpacks what it fetches and packs it in its own way; records, offsets and epochs are the same."""
    replicate = Partition.replicate

    def packed(self: Partition, data: bytes, *, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        batches = []
        for frame in frames(data):
            header = read_header(data, frame.position)
            batches.append(
                build_batch(
                    read_batch(data, frame.position),
                    base_offset=header.base_offset,
                    partition_leader_epoch=header.partition_leader_epoch,
                    codec=Codec.LZ4,
                )
            )
        replicate(
            self, b"".join(batches), high_watermark=high_watermark, log_start_offset=log_start_offset, now_ms=now_ms
        )

    patch.setattr(Partition, "replicate", packed)


def truncate_to_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: a follower cuts its log to what it knows to be committed, and is elected before it has fetched again."""
    become = Partition.become

    def cut(self: Partition, state: LeaderAndIsr, replicas: Replicas, *, now_s: float = 0.0) -> bool:
        done = become(self, state, replicas, now_s=now_s)
        if not self.is_leader:
            self.log.truncate_to(self.log.high_watermark, now_ms=NOW_MS)
        return done

    patch.setattr(Partition, "become", cut)


@pytest.mark.skipif(COMPILED, reason="nothing can be put in the place of compiled methods")
@pytest.mark.parametrize(
    "mistake",
    [
        acknowledge_alone,
        count_committed_only,
        shrink_unasked,
        join_early,
        keep_what_diverged,
        encode_again,
        truncate_to_high_watermark,
    ],
)
def test_a_mistake_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mistake(monkeypatch)
    for seed in range(SEEDS_FOR_A_MISTAKE):
        try:
            World(tmp_path / str(seed), seed).run()
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_FOR_A_MISTAKE} worlds with this mistake, and nothing was noticed")
