"""What ``ottla log adopt`` and ``release`` do: a broker's log directories are registered with an ensemble, and nothing else.

The directories are read, never written to: what a broker changes there, it changes when it starts, and by then the ensemble knows
the topics and keeps their records from being deleted. Everything is looked at before anything is written, and each topic is
written in one step. Done in part, or twice, it can be done again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from ottla.base.errors import ConfigError
from ottla.cli.client.connection import NOT_FOUND, Failure
from ottla.log.adoption import GROUP_TOPIC, TRANSACTION_TOPIC, FoundTopic, Survey, survey
from ottla.metadata.ids import NO_LEADER, BrokerId, TopicId, format_id
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, TopicAssignment
from ottla.registry import KazooStore, Registry
from ottla.registry.adoption import Adoption

KEPT: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
UNCOMPACTED: Final = {"min.compaction.lag.ms": str((1 << 63) - 1)}
COMPACTED: Final = {"cleanup.policy": "compact"}
# As brokers make them. What they hold is for coordinators to forget, so nothing holds that off.
INTERNAL: Final[Mapping[str, Mapping[str, str]]] = {
    GROUP_TOPIC: {**COMPACTED, "compression.type": "producer", "segment.bytes": "104857600"},
    TRANSACTION_TOPIC: {
        **COMPACTED,
        "compression.type": "uncompressed",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
}


class Adopted(NamedTuple):
    """A topic, as it is told of."""

    topic: FoundTopic
    topic_id: TopicId
    is_new: bool
    """False if it was registered before, by an adoption that was interrupted or is done again."""

    def row(self) -> dict[str, object]:
        return {
            "topic": self.topic.name,
            "topic_id": format_id(self.topic_id),
            "partitions": len(self.topic.partitions) + len(self.topic.missing),
            "missing_partitions": self.topic.missing,
            "bytes": sum(each.bytes for each in self.topic.partitions),
            "segments": sum(each.segments for each in self.topic.partitions),
            "compacted": self.topic.is_compacted,
            "registered": not self.is_new,
        }


async def adopt(
    directories: Sequence[Path], connect: str, *, dry_run: bool, allow_missing: bool
) -> tuple[Survey, list[Adopted]]:
    """Look through the directories, and register what is there unless it is a ``dry_run``."""
    found = survey(directories)
    async with _connected(connect) as store:
        registry = Registry(store)
        plan = await _plan(registry, found, allow_missing=allow_missing or dry_run)
        if not dry_run:
            await _register(registry, found, plan)
    return found, plan


async def release(names: Sequence[str], connect: str) -> list[str]:
    """Let settings decide again what is deleted: for ``names``, or for all that were taken over. Which ones that were."""
    async with _connected(connect) as store:
        adoption = Adoption(store)
        held = await adoption.held()
        if unknown := [name for name in names if name not in held]:
            raise Failure(f"nothing is held off for {', '.join(unknown)}", NOT_FOUND)
        chosen = list(names) or sorted(held)
        for name in chosen:
            await adoption.release(name, held[name])
    return chosen


def _connected(connect: str) -> AbstractAsyncContextManager[KazooStore]:
    logging.getLogger("ottla.registry").setLevel(logging.CRITICAL)  # what it cannot do is told once, in our words
    return KazooStore(connect, session_timeout_ms=10_000)


async def _plan(registry: Registry, found: Survey, *, allow_missing: bool) -> list[Adopted]:
    """What is to be registered. Raises what speaks against any of it."""
    cluster_id = await registry.cluster.cluster_id()
    if cluster_id not in (None, found.meta.cluster_id):
        raise ConfigError(
            f"the directories belong to cluster {found.meta.cluster_id}, and the ensemble to {cluster_id}; take over into an "
            "ensemble that no broker has used yet, or into a path of its own (HOST:PORT/PATH)"
        )
    if found.meta.broker_id in (await registry.brokers.read_all()):
        raise ConfigError(f"broker {found.meta.broker_id} is running; stop it first")
    there = await registry.topics.read(found.topics)
    plan = []
    for name, topic in found.topics.items():
        if topic.missing and not allow_missing:
            raise ConfigError(
                f"{name}: the partitions {topic.missing} are not in these directories, so other brokers had them; "
                "with --allow-missing they will be there, and empty"
            )
        known = there.get(name)
        topic_id = TopicId((topic.topic_id or uuid4()).bytes)
        if known is not None:
            is_same = (
                known.partitions == _assignment(topic, found).partitions
                and known.topic_id is not None
                and (topic.topic_id is None or known.topic_id == topic_id)
            )
            if not is_same or known.topic_id is None:
                raise ConfigError(f"{name}: the ensemble has another topic of that name")
            topic_id = known.topic_id
        plan.append(Adopted(topic, topic_id, known is None))
    return plan


async def _register(registry: Registry, found: Survey, plan: Sequence[Adopted]) -> None:
    broker_id = BrokerId(found.meta.broker_id)
    adoption = Adoption(registry.store)
    await registry.cluster.make_paths()
    await adoption.prepare()
    if await registry.cluster.cluster_id(found.meta.cluster_id) != found.meta.cluster_id:
        raise ConfigError("another cluster has taken the ensemble meanwhile")
    if found.largest_producer_id >= 0:
        await registry.cluster.skip_producer_ids(found.largest_producer_id, broker_id)
    for each in plan:
        if each.is_new:
            topic = each.topic
            # Nobody leads until the broker comes; who leads then, does so in a later epoch than anything was written in.
            states = {
                one.where.partition: LeaderAndIsr(NO_LEADER, max(one.leader_epoch, 0), (broker_id,), 0)
                for one in topic.partitions
            }
            config = INTERNAL.get(topic.name) or (COMPACTED if topic.is_compacted else {})
            held = {**KEPT, **(UNCOMPACTED if topic.is_compacted else {})}
            assignment = TopicAssignment(each.topic_id, _assignment(topic, found).partitions)
            await adoption.create(
                topic.name, assignment, states, config=config, held={} if topic.name in INTERNAL else held
            )


def _assignment(topic: FoundTopic, found: Survey) -> TopicAssignment:
    numbers = range(len(topic.partitions) + len(topic.missing))
    here = ReplicaAssignment((BrokerId(found.meta.broker_id),))
    return TopicAssignment(None, dict.fromkeys(numbers, here))
