"""Nodes that are made, killed and made again, and a workload of everything that operators do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random

from ottla.base.scope import TaskScope
from ottla.controller.controller import NotControllerError
from ottla.log import TopicPartition as LogPartition
from ottla.metadata import BrokerId, ReplicaAssignment
from ottla.metadata.ids import TopicPartition, topic_id_from
from ottla.metadata.znodes.topics import TopicAssignment
from ottla.registry import NodeExistsError, Registry, RegistryError
from tests.simcontroller.checks import UNCLEAN, CheckedEnsemble, all_is_well, nothing_is_led_by
from tests.simcontroller.clients import Consumer, Producer
from tests.simcontroller.disk import Kept, Left
from tests.simcontroller.eras import Place
from tests.simcontroller.faults import FaultyStore, Weather
from tests.simcontroller.network import CLIENT, Network
from tests.simcontroller.node import SESSION_MS, Node
from tests.simcontroller.truth import Truth
from tests.simcontroller.virtual import run

BROKERS = 4
NAMES = ("a", "b", "c")
LOSSY = "c"
"""A topic that would rather lose records than wait."""
STORM_S = 45.0
CALM_S = 60.0
PRODUCERS, CONSUMERS = 3, 2
PAUSE_S = 10.0


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.weather = Weather(self.rng)
        self.ensemble = CheckedEnsemble(self)
        self.network = Network(self)
        self.truth = Truth(self)
        self.nodes: dict[BrokerId, Node] = {}
        self.left: dict[BrokerId, Left] = {BrokerId(number): Left() for number in range(1, BROKERS + 1)}
        """What the brokers that are not there have on their disks."""
        self.is_lossy = seed % 2 == 0
        """Whether there are unclean elections. Where there are none, nothing that is committed is ever lost."""
        self.asked: TopicPartition | None = None
        """An operator wants an unclean election of it, and waits for that."""
        self._uneasy: set[BrokerId] = set()
        self._is_operating = False
        self._scope: TaskScope

    def records(self, broker: BrokerId, where: TopicPartition, place: Place) -> list[Kept]:
        """What a broker holds of a partition, alive or not."""
        key = LogPartition(*where)
        if broker in self.nodes:
            log = self.nodes[broker].directory.logs.get(key)
            topic_id, records = (None, []) if log is None else (log.topic_id, log.records)
        else:
            topic_id, records = self.left[broker].logs.get(key, (None, []))
        return records if topic_id is not None and topic_id.bytes == place.topic_id else []

    def holds(self, broker: BrokerId, where: TopicPartition, topic_id: bytes | None) -> bool:
        key = LogPartition(*where)
        if broker in self.nodes:
            log = self.nodes[broker].directory.logs.get(key)
            found = None if log is None else log.topic_id
        else:
            found, _ = self.left[broker].logs.get(key, (None, []))
        return found is not None and found.bytes == topic_id

    def without_disk(self) -> list[BrokerId]:
        return [broker for broker, node in self.nodes.items() if node.directory.health.failure is not None]

    async def story(self) -> None:
        async with TaskScope("world") as self._scope, FaultyStore(self.ensemble, self.weather) as store:
            self.weather.is_bad = False
            await Registry(store).cluster.make_paths()
            self.weather.is_bad = True
            for broker in self.left:
                self._start(broker)
            clients = [Producer(self, number) for number in range(PRODUCERS)]
            readers = [Consumer(self) for _ in range(CONSUMERS)]
            storm = [self._scope.spawn(client.run()) for client in (*clients, *readers)]
            storm += [self._scope.spawn(self._operate(Registry(store))), self._scope.spawn(self._break())]
            await asyncio.sleep(STORM_S)
            self.weather.is_bad = False
            for task in storm:
                await task
            self.network.heal()
            if failed := self.without_disk():
                await asyncio.sleep(CALM_S / 2)
                nothing_is_led_by(self, failed)
                for broker in failed:
                    await self._kill(broker)
            for broker in self.left.keys() - self.nodes.keys():
                self._start(broker)
            await asyncio.sleep(CALM_S)
            all_is_well(self)

    def _start(self, broker: BrokerId) -> None:
        node = self.nodes[broker] = Node(self, broker, self.left[broker])
        node.start(self._scope)

    # What goes wrong.

    async def _break(self) -> None:
        faults = (
            *[self._kill] * 4, *[self._cut_power] * 3, self._expire, self._pause, *[self._cut_network] * 2,
            *[self._kill_leaders] * 3, *[self._fail_disk] * 2,
            *[self._outlive] * (3 if self.is_lossy else 0),
        )  # fmt: skip
        while self.weather.is_bad:
            await asyncio.sleep(self.rng.random() * 3)
            victim = self.rng.choice(sorted(self.left))
            if victim not in self.nodes:
                self._start(victim)
            elif self.truth.is_settled():
                await self.rng.choice(faults)(victim)

    async def _kill(self, victim: BrokerId, kept: Mapping[LogPartition, int] | None = None) -> None:
        node = self.nodes.pop(victim)
        self.left[victim] = node.directory.leave(kept or {})
        await node.kill()
        how = self.rng.random()
        if how < 0.3:
            self.ensemble.end_session(node.store.session_id)  # noticed at once
            return
        self._scope.spawn(self._end(node.store.session_id))
        if how < 0.6:
            await asyncio.sleep(self.rng.random())
            self._start(victim)  # before anybody has noticed

    async def _kill_leaders(self, victim: BrokerId) -> None:
        """One leader after the other, each as soon as it leads."""
        where = next((where for where, state in self.ensemble.states.items() if state.leader == victim), None)
        for _ in range(2):
            state = None if where is None else self.ensemble.states.get(where)
            if state is None or state.leader not in self.nodes:
                return
            await self._kill_noticed(state.leader)
            await asyncio.sleep(self.rng.random() * 0.3)

    async def _kill_noticed(self, victim: BrokerId) -> None:
        node = self.nodes.pop(victim)
        self.left[victim] = node.directory.leave({})
        await node.kill()
        self.ensemble.end_session(node.store.session_id)

    async def _outlive(self, survivor: BrokerId) -> None:
        """It is away for a moment, and when it is back all those are gone that were in sync meanwhile."""
        held = [
            where
            for where in self.ensemble.states
            if where.topic == LOSSY and survivor in self.ensemble.assignment(LOSSY).partitions[where.partition].replicas
        ]
        if not held:
            return
        where = self.rng.choice(held)
        await self._kill_noticed(survivor)
        await asyncio.sleep(self.rng.random() * 2)
        state = self.ensemble.states.get(where)
        for broker in () if state is None or state.isr == (survivor,) else state.isr:
            if broker in self.nodes:
                await self._kill_noticed(broker)
        if survivor not in self.nodes:
            self._start(survivor)

    async def _cut_power(self, victim: BrokerId) -> None:
        """What was not synced goes, or some of it.

        As long as that is not known of everybody, nobody else fails, is stopped, or gives up a replica: one that is taken
        for alive and whole, though it is neither, must not be the last one in sync.
        """
        if len(self.nodes) < BROKERS or self._uneasy or self._is_operating:
            await self._kill(victim)
            return
        kept: dict[LogPartition, int] = {}
        for key, log in self.nodes[victim].directory.logs.items():
            left = self.rng.choice((log.synced, self.rng.randint(log.synced, log.log_end_offset)))
            kept[key] = self.truth.spared(victim, TopicPartition(*key), log, left)
        await self._kill(victim, kept)

    async def _expire(self, victim: BrokerId) -> None:
        self.nodes[victim].store.expire()

    async def _fail_disk(self, victim: BrokerId) -> None:
        """Mended by the next life of its broker."""
        self.nodes[victim].fail_disk()

    async def _cut_network(self, victim: BrokerId) -> None:
        """Between a broker and some others, or one way only, for a while."""
        for other in (CLIENT, *self.left):
            if other != victim and self.rng.random() < 0.6:
                ways = [(victim, other), (other, victim)]
                for source, target in self.rng.sample(ways, self.rng.randint(1, 2)):
                    self.network.cut(source, target)
        self._scope.spawn(self._heal())

    async def _heal(self) -> None:
        await asyncio.sleep(self.rng.random() * 8)
        self.network.heal()

    async def _pause(self, victim: BrokerId) -> None:
        """It comes back to find that its session is over, and what it was about to write is on its way all the same."""
        node = self.nodes[victim]
        self._uneasy.add(victim)
        node.store.stall(PAUSE_S)
        self._scope.spawn(self._resume(node))

    async def _resume(self, node: Node) -> None:
        await self._end(node.store.session_id)
        await asyncio.sleep(PAUSE_S / 2)
        self._uneasy.discard(node.broker_id)
        if self.nodes.get(node.broker_id) is node:
            node.store.expire()

    async def _end(self, session_id: int) -> None:
        await asyncio.sleep(SESSION_MS / 1000)
        self.ensemble.end_session(session_id)

    # What operators do.

    async def _operate(self, registry: Registry) -> None:
        deeds = (
            *[self._create] * 3, self._delete, self._grow, *[self._reassign] * 4, *[self._elect] * 3, self._shut_down,
            *[self._elect_anybody] * (2 if self.is_lossy else 0),
        )  # fmt: skip
        while self.weather.is_bad:
            await asyncio.sleep(self.rng.random() * 1.5)
            ruler = next((node for node in self.nodes.values() if node.controller_is_active), None)
            if ruler is None or not self.truth.is_settled():
                continue
            self._is_operating = True
            try:
                await self.rng.choice(deeds)(ruler, registry)
            except (NotControllerError, RegistryError):
                continue
            except RuntimeError:
                assert self.nodes.get(ruler.broker_id) is not ruler, "only a process that is gone takes no more tasks"
            finally:
                self._is_operating = False

    def _some_brokers(self) -> tuple[BrokerId, ...]:
        return tuple(self.rng.sample(sorted(self.left), self.rng.choice((1, 2, 3, 3, 3))))

    def _some_partition(self, ruler: Node) -> TopicPartition | None:
        image = ruler.controller.image
        partitions = [] if image is None else sorted(image.partitions())
        return self.rng.choice(partitions) if partitions else None

    async def _create(self, ruler: Node, registry: Registry) -> None:
        partitions = {number: ReplicaAssignment(self._some_brokers()) for number in range(self.rng.randint(1, 3))}
        topic_id = None
        while topic_id is None:
            topic_id = topic_id_from(self.rng.randbytes(16))
        name = self.rng.choice(NAMES)
        config = {UNCLEAN: "true"} if self.is_lossy and name == LOSSY else {}
        with suppress(NodeExistsError):
            await registry.topics.create(name, TopicAssignment(topic_id, partitions), config)
        if self.rng.random() < 0.5:
            await ruler.controller.topics_changed()

    async def _delete(self, ruler: Node, registry: Registry) -> None:
        name = self.rng.choice(NAMES)
        await registry.topics.request_deletion(name)
        if self.rng.random() < 0.5:
            await ruler.controller.deletion_asked(name)

    async def _grow(self, ruler: Node, _registry: Registry) -> None:
        where = self._some_partition(ruler)
        image = ruler.controller.image
        topic = None if where is None or image is None else image.topics.get(where.topic)
        if topic is not None and len(topic.partitions) < 5:
            more = {**topic.partitions, len(topic.partitions): ReplicaAssignment(self._some_brokers())}
            await ruler.controller.partitions_added(topic._replace(partitions=more))

    async def _reassign(self, ruler: Node, _registry: Registry) -> None:
        where = self._some_partition(ruler)
        if where is not None:
            target = None if self.rng.random() < 0.4 else list(self._some_brokers())
            await ruler.controller.reassign({where: target})

    async def _elect(self, ruler: Node, _registry: Registry) -> None:
        await ruler.controller.elect(None, unclean=False)

    async def _elect_anybody(self, ruler: Node, _registry: Registry) -> None:
        """What nobody leads is to be led by whoever is there, whatever it has lost."""
        image = ruler.controller.image
        states = {} if image is None else {where: image.state(where) for where in sorted(image.partitions())}
        waiting = [where for where, state in states.items() if state is not None and not state.has_leader]
        if waiting:
            self.asked = self.rng.choice(waiting)
            try:
                await ruler.controller.elect([self.asked], unclean=True)
            finally:
                self.asked = None

    async def _shut_down(self, _ruler: Node, _registry: Registry) -> None:
        victim = self.rng.choice(sorted(self.nodes))
        node = self.nodes[victim]
        await node.hand_over()
        if self.nodes.get(victim) is node:
            node.replicas.checkpoint()
            del self.nodes[victim]
            self.left[victim] = node.directory.leave({}, is_clean=True)
            await node.kill()
            self.ensemble.end_session(node.store.session_id)


def simulate(seed: int) -> World:
    """The world, if nothing was wrong with it at any moment."""
    world = World(seed)
    run(world.story())
    return world
