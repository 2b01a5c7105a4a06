"""The state of a partition is written on condition that nobody else has written it since it was read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, TopicAssignment, encode_state
from ottla.registry import Registry
from ottla.registry.store import SetData
from ottla.registry.topics import StateUpdates, Topics
from tests.peers.memorystore import MemoryEnsemble, MemoryStore
from tests.sources import COMPILED

ONE, TWO = BrokerId(1), BrokerId(2)
WHERE = TopicPartition("t", 0)


def check_late_write() -> None:
    async def story() -> None:
        async with MemoryStore(MemoryEnsemble()) as store:
            registry = Registry(store)
            await registry.cluster.make_paths()
            epoch = await registry.controllers.elect(ONE, timestamp_ms=7)
            assert epoch is not None
            await registry.topics.create("t", TopicAssignment(None, {0: ReplicaAssignment((ONE, TWO))}))
            made = await registry.topics.create_states({WHERE: LeaderAndIsr(ONE, 0, (ONE, TWO), 1)}, epoch)
            read = made.done[WHERE]
            # Broker 1 is gone and broker 2 leads; and what was read before says that broker 2 has fallen behind.
            led = await registry.topics.update_states({WHERE: read.with_leader(TWO, (TWO,), controller_epoch=1)}, epoch)
            late = await registry.topics.update_states({WHERE: read._replace(isr=(ONE,))}, epoch)
            assert not late.done
            assert late.retry.keys() == {WHERE}
            assert await registry.topics.states([WHERE]) == led.done

    asyncio.run(story())


def test_a_state_that_was_made_from_an_older_one_is_not_written() -> None:
    check_late_write()


@pytest.mark.skipif(COMPILED, reason="nothing can be put in the place of compiled methods")
def test_states_that_are_written_whatever_is_there_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: a set of the znode on no condition."""

    async def update(
        topics: Topics, states: Mapping[TopicPartition, LeaderAndIsr], controller: ControllerEpoch
    ) -> StateUpdates:
        writes = {where: [SetData(paths.partition_state(where), encode_state(each))] for where, each in states.items()}
        return await topics._write(states, writes, controller)

    monkeypatch.setattr(Topics, "update_states", update)
    with pytest.raises(AssertionError):
        check_late_write()
