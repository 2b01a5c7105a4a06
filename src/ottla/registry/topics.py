"""``/brokers/topics`` and ``/admin/delete_topics``: which topics there are, where they are and who leads them.

Anybody creates a topic or asks to delete one; the controller brings partitions up, moves leaders and does the deleting,
all under the guard of its epoch. A state is conditional on its partition epoch besides: of two that change the same
partition, one is told that it came late.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.metadata.errors import ZnodeError
from ottla.metadata.ids import TopicPartition
from ottla.metadata.image import ControllerEpoch, Topic
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.configs import encode_config, topic_entity
from ottla.metadata.znodes.topics import (
    LeaderAndIsr,
    TopicAssignment,
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
)
from ottla.registry.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    RegistryError,
)
from ottla.registry.guard import guarded, guarded_many
from ottla.registry.store import Create, Delete, Operation, SetData, Stat, ZnodeStore

log = logging.getLogger(__name__)

MULTI_MAX: Final = 200
"""Partitions in one multi: well below the megabyte that ZooKeeper takes as one request."""


class StateUpdates(NamedTuple):
    """What became of conditional updates: done, with the new partition epoch, or to be read and decided again."""

    done: dict[TopicPartition, LeaderAndIsr]
    retry: dict[TopicPartition, RegistryError]


class Topics:
    """The topics of a cluster, over a store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store

    async def names(self) -> tuple[str, ...]:
        return await self._store.children(paths.TOPICS) or ()

    async def read_all(self) -> dict[str, Topic]:
        """Every topic with the states of all its partitions."""
        return await self.read(await self.names())

    async def read(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of ``names`` that exist and can be read, with the states of their partitions."""
        wanted = list(names)
        topics: dict[str, Topic] = {}
        for name, found in zip(wanted, await self._store.get_many(list(map(paths.topic, wanted))), strict=True):
            if found is not None:
                try:
                    topic_id, partitions = decode_topic(name, found.data)
                except ZnodeError as error:
                    log.error("a topic is left alone, since it cannot be read: %s", error)  # noqa: TRY400
                else:
                    topics[name] = Topic(name, topic_id, partitions, {}, found.stat.version)
        everywhere = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
        by_topic: dict[str, dict[int, LeaderAndIsr]] = {}
        for where, state in (await self.states(everywhere)).items():
            by_topic.setdefault(where.topic, {})[where.partition] = state
        return {name: topic._replace(states=by_topic.get(name, {})) for name, topic in topics.items()}

    async def states(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        """Those of ``partitions`` that have a state."""
        found = await self._store.get_many(list(map(paths.partition_state, partitions)))
        return {
            where: decode_state(where, znode.data, partition_epoch=znode.stat.version)
            for where, znode in zip(partitions, found, strict=True)
            if znode is not None
        }

    async def create(self, name: str, topic: TopicAssignment, config: Mapping[str, str] | None = None) -> None:
        """Create a topic with its settings; NodeExistsError if there is one. The controller does the rest."""
        data = encode_topic(topic)
        settings = topic_entity(name).path
        while True:
            left_over = await self._store.get(settings)
            # The settings first, as Kafka has it: whoever sees the topic finds them.
            write: Operation = Create(settings, encode_config(config or {}))
            if left_over is not None:
                write = SetData(settings, encode_config(config or {}), left_over.stat.version)
            try:
                await self._store.multi([write, Create(paths.topic(name), data)])
            except ConnectionLossError:
                found = await self._store.get(paths.topic(name))
                if found is not None and found.data == data:
                    return
            except (BadVersionError, NoNodeError):
                continue  # the settings changed under our hands
            except NodeExistsError:
                if await self._store.get(paths.topic(name)) is not None:
                    raise NodeExistsError(f"Topic '{name}' already exists.") from None
            else:
                return

    async def set_assignment(self, topic: Topic, controller: ControllerEpoch) -> Topic:
        """Write the partitions of ``topic``; BadVersionError if they changed since it was read."""
        operation = SetData(paths.topic(topic.name), encode_topic(topic.assignment), topic.zk_version)
        (stat,) = await guarded(self._store, controller, [operation])
        assert isinstance(stat, Stat)
        return topic._replace(zk_version=stat.version)

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr], controller: ControllerEpoch
    ) -> StateUpdates:
        """Bring partitions up that have no state yet."""
        roots = [[Create(paths.partitions(name))] for name in dict.fromkeys(where.topic for where in states)]
        for outcome in await guarded_many(self._store, controller, roots):
            if isinstance(outcome, RegistryError) and not isinstance(outcome, (NodeExistsError, NoNodeError)):
                raise outcome
        creations = {
            where: [Create(paths.partition(where)), Create(paths.partition_state(where), encode_state(state))]
            for where, state in states.items()
        }
        updates = await self._write(states, creations, controller)
        # Kafka's controllers write the two one after the other, and one that dies in between leaves the first of them.
        halves = {
            where: creations[where][1:] for where, error in updates.retry.items() if isinstance(error, NodeExistsError)
        }
        later = await self._write(states, halves, controller)
        retry = {where: error for where, error in updates.retry.items() if where not in later.done}
        return StateUpdates(updates.done | later.done, retry)

    async def update_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr], controller: ControllerEpoch
    ) -> StateUpdates:
        """Write the next states, each on condition that the partition epoch is still the one it was made from."""
        writes = {
            where: [SetData(paths.partition_state(where), encode_state(state), state.partition_epoch)]
            for where, state in states.items()
        }
        return await self._write(states, writes, controller)

    async def request_deletion(self, name: str) -> None:
        """Ask the controller to delete a topic; harmless if somebody asked already."""
        while True:
            try:
                await self._store.create(paths.deletion(name))
            except ConnectionLossError:
                continue
            except NodeExistsError:
                return
            else:
                return

    async def deletions(self) -> tuple[str, ...]:
        """The topics that are to be deleted."""
        return await self._store.children(paths.DELETE_TOPICS) or ()

    async def cancel_deletion(self, name: str, controller: ControllerEpoch) -> None:
        """Take back the request, for a topic that does not exist or may not be deleted."""
        await self._delete_present([paths.deletion(name)], controller)

    async def delete(self, name: str, controller: ControllerEpoch) -> None:
        """Delete everything of a topic, the request to do so last. Done in part, it can be done again."""
        root = paths.partitions(name)
        numbers = await self._store.children(root) or ()
        for start in range(0, len(numbers), MULTI_MAX):
            below = (f"{root}/{number}" for number in numbers[start : start + MULTI_MAX])
            await self._delete_present([path for each in below for path in (f"{each}/state", each)], controller)
        last = [root, paths.topic(name), topic_entity(name).path, paths.deletion(name)]
        await self._delete_present(last, controller)

    def watch(self) -> None:
        """Have the names of topics and of requests to delete them told when they change."""
        self._store.watch_children(paths.TOPICS)
        self._store.watch_children(paths.DELETE_TOPICS)

    def watch_assignment(self, name: str) -> None:
        """Have the znode of one topic told when its partitions change."""
        self._store.watch_data(paths.topic(name))

    def unwatch_assignment(self, name: str) -> None:
        self._store.unwatch(paths.topic(name))

    async def _write(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        writes: Mapping[TopicPartition, Sequence[Operation]],
        controller: ControllerEpoch,
    ) -> StateUpdates:
        """Write many partitions in few multis, all on their way at once.

        The one that keeps a multi from being done is left out of the next attempt.
        """
        updates = StateUpdates({}, {})
        waiting = list(writes)
        while waiting:
            batches = [waiting[start : start + MULTI_MAX] for start in range(0, len(waiting), MULTI_MAX)]
            operations = [[(where, each) for where in batch for each in writes[where]] for batch in batches]
            outcomes = await guarded_many(self._store, controller, [[each for _, each in some] for some in operations])
            waiting = []
            for batch, some, outcome in zip(batches, operations, outcomes, strict=True):
                if isinstance(outcome, RegistryError):
                    late = batch if outcome.operation is None else [some[outcome.operation][0]]
                    updates.retry.update(dict.fromkeys(late, outcome))
                    waiting += [where for where in batch if where not in updates.retry]
                    continue
                for (where, _), result in zip(some, outcome, strict=True):
                    epoch = result.version if isinstance(result, Stat) else 0
                    updates.done[where] = states[where]._replace(partition_epoch=epoch)
        return updates

    async def _delete_present(self, doomed: Sequence[str], controller: ControllerEpoch) -> None:
        found = await self._store.get_many(doomed)
        present = [Delete(path) for path, znode in zip(doomed, found, strict=True) if znode is not None]
        if present:
            await guarded(self._store, controller, present)
