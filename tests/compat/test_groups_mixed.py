"""Groups of clients that nobody here wrote, mixed, killed and paused, with the broker killed under them: G1 to G4."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Self

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.compat.members.company import KINDS, QUIET, Company, Member
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.processes import wait_until

SETTINGS = {"group.initial.rebalance.delay.ms": "500"}
PARTITIONS = 12


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OttlaBrokers]:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(1, keepers.hosts, tmp_path, settings=SETTINGS) as brokers:
        yield brokers


@pytest.fixture
def company(broker: OttlaBrokers, tmp_path: Path) -> Iterator[Company]:
    create(broker.bootstrap, "shared", PARTITIONS)
    made = Company(broker.bootstrap, "shared", PARTITIONS, "mixed", tmp_path)
    yield made
    for member in made.members:
        member.process.kill()


def create(bootstrap: str, topic: str, partitions: int, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(timeout=120)


def test_three_clients_share_a_topic_and_one_is_killed(company: Company) -> None:
    company.produce(300)
    for kind in ("librdkafka", "kafka-python", "aiokafka"):
        company.start(kind)
    company.wait_settled(["librdkafka", "kafka-python", "aiokafka"])
    company.members[0].process.kill()
    company.produce(300)
    company.wait_settled(["kafka-python", "aiokafka"])
    company.wait_all_read()
    company.stop()
    company.check_acknowledged()
    company.check_log()


@pytest.fixture
def cooperative(broker: OttlaBrokers, tmp_path: Path) -> Iterator[Company]:
    create(broker.bootstrap, "shared", PARTITIONS)
    made = Company(broker.bootstrap, "shared", PARTITIONS, "cooperative", tmp_path, "cooperative-sticky")
    yield made
    for member in made.members:
        member.process.kill()


def kept_on(member: Member) -> set[int]:
    """What a member was given and never had to give back."""
    given: set[int] = set()
    for each in member.said():
        given |= set(each.get("assigned", ()))
        given -= set(each.get("revoked", ()))
    return given


def lives_through(company: Company, first: str, *others: str) -> None:
    """Others join one by one and take over no more than they need; the last is killed."""
    company.produce(300)
    founder = company.start(first)
    company.wait_settled([first])
    for number in range(len(others)):
        company.start(others[number])
        company.wait_settled([first, *others[: number + 1]])
    wait_until(lambda: len(kept_on(founder)) == PARTITIONS // (1 + len(others)), timeout_s=60, what="it kept its share")
    ever_revoked = {number for each in founder.said() for number in each.get("revoked", ())}
    assert not ever_revoked & kept_on(founder), "what it kept was never taken from it"
    company.members[-1].process.kill()
    company.produce(300)
    company.wait_settled([first, *others[:-1]])
    company.wait_all_read()
    company.stop()
    company.check_acknowledged()
    company.check_log()


def test_cooperative_members_keep_what_nobody_else_needs(cooperative: Company) -> None:
    lives_through(cooperative, "librdkafka", "kafka-python")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_cooperative_members_of_every_client_that_has_them(cooperative: Company) -> None:
    lives_through(cooperative, "java", "librdkafka", "franz-go")


@pytest.fixture
def everybody(company: Company) -> Iterator[Company]:
    """A member of each kind; afterwards all is read, nothing is lost, and they leave."""
    company.produce(600)
    for kind in KINDS:
        company.start(kind)
    company.wait_settled(list(KINDS))
    yield company
    company.wait_all_read()
    company.stop()
    described = company.describe()
    assert described is not None
    assert described.state is ConsumerGroupState.EMPTY
    company.check_acknowledged()
    company.check_log()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_kind_of_member_is_killed(everybody: Company) -> None:
    for victim in KINDS:
        member = next(each for each in everybody.members if each.kind == victim and each.process.running)
        member.process.kill()
        everybody.produce(60)
        everybody.wait_settled([kind for kind in KINDS if kind != victim])
        everybody.start(victim)
        everybody.wait_settled(list(KINDS))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_kind_of_member_is_paused(everybody: Company) -> None:
    """Longer than its session: somebody else has its partitions by the time it goes on, and its commits are refused."""
    for member in list(everybody.members):
        member.process.pause()
        everybody.produce(60)
        everybody.wait_settled([kind for kind in KINDS if kind != member.kind])
        member.process.resume()
        everybody.wait_settled(list(KINDS))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_broker_is_killed_under_all_of_them(everybody: Company, broker: OttlaBrokers) -> None:
    for _ in range(3):
        broker.kill(0)
        broker.start(0)
        everybody.check_acknowledged()
        everybody.produce(60)
        everybody.wait_settled(list(KINDS))


class Burst:
    """Committers that count up, each for a group of its own, and watchers that look what the coordinator tells meanwhile."""

    def __init__(self, bootstrap: str, groups: int) -> None:
        self._bootstrap = bootstrap
        self._groups = range(groups)
        self._done = threading.Event()
        self.acknowledged = dict.fromkeys(self._groups, 0)
        self.told = dict.fromkeys(self._groups, 0)
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        work = (self._commit, self._watch)
        self._threads = [threading.Thread(target=each, args=(number,)) for each in work for number in self._groups]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _consumer(self, number: int) -> Consumer:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": f"g{number}", "socket.timeout.ms": 2000, **QUIET}
        return Consumer(settings)

    def _commit(self, number: int) -> None:
        consumer, offset = self._consumer(number), 0
        while not self._done.is_set():
            offset += 1
            try:
                consumer.commit(offsets=[TopicPartition("t", number, offset)], asynchronous=False)
                self.acknowledged[number] = offset
            except KafkaException:
                continue
        consumer.close()

    def _watch(self, number: int) -> None:
        consumer = self._consumer(number)
        while not self._done.is_set():
            least = max(self.acknowledged[number], self.told[number])
            try:
                (found,) = consumer.committed([TopicPartition("t", number)], timeout=2)
            except KafkaException:
                continue
            if max(found.offset, 0) < least:
                self.failures.append(f"g{number}: {found.offset} was told, where {least} had been")
            self.told[number] = max(least, found.offset)
        consumer.close()

    def wait_for_more(self, count: int) -> None:
        """Until every group has so many more commits acknowledged, and was told of some of them."""
        before, seen = dict(self.acknowledged), dict(self.told)

        def more() -> bool:
            return all(
                self.acknowledged[each] >= before[each] + count and self.told[each] > seen[each]
                for each in self._groups
            )

        wait_until(more, timeout_s=60, what=f"{count} more commits of each group")


def test_no_commit_is_lost_or_seen_to_go_back_when_the_broker_is_killed(broker: OttlaBrokers) -> None:
    """G4: while the coordinator loads it answers nobody, so no offset is ever told that is older than one acknowledged."""
    create(broker.bootstrap, "t", 4)
    with Burst(broker.bootstrap, 4) as burst:
        for _ in range(3):
            burst.wait_for_more(20)
            broker.kill(0)
            broker.start(0)
        burst.wait_for_more(5)
    assert not burst.failures, burst.failures[:5]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_no_commit_is_lost_or_seen_to_go_back_when_coordinators_are_killed(tmp_path: Path) -> None:
    """The same on three brokers: another one takes over, with all that was acknowledged and nothing that was not."""
    with OttlaKeepers(1, tmp_path) as keepers:
        settings = {"default.replication.factor": "3", "min.insync.replicas": "2", **SETTINGS}
        with OttlaBrokers(3, keepers.hosts, tmp_path, settings=settings) as brokers:
            create(brokers.bootstrap, "t", 6)
            with Burst(brokers.bootstrap, 6) as burst:
                for victim in (0, 1, 2, 0, 1, 2):
                    burst.wait_for_more(20)
                    brokers.kill(victim)
                    burst.wait_for_more(5)
                    brokers.start(victim)
            assert not burst.failures, burst.failures[:5]


class Dozen:
    """Two members of each kind on three brokers, and what may happen to them. Whom it happens to is up to the seed."""

    def __init__(self, company: Company, brokers: OttlaBrokers, seed: int) -> None:
        self.company = company
        self._brokers = brokers
        self._random = Random(seed)
        self._alive = [company.start(kind) for kind in KINDS for _ in range(2)]
        self._paused: list[Member] = []
        self._down: list[int] = []

    def rounds(self) -> Sequence[Sequence[Callable[[], None]]]:
        """What happens at the same time, again and again."""
        return (
            (self.kill_member, self.kill_member),
            (self.kill_coordinator,),
            (self.pause_member, self.kill_member),
            (self.kill_member, self.kill_coordinator),
            (self.pause_member, self.kill_coordinator),
            (self.kill_coordinator, self.kill_member, self.pause_member, self.kill_member),
        )

    def settle(self) -> None:
        """Whoever is alive and goes on shares all of it, and what is produced meanwhile is read."""
        self.company.produce(120)
        self.company.wait_settled([member.kind for member in self._alive if member not in self._paused])
        self.company.check_acknowledged()

    def kill_member(self) -> None:
        member = self._random.choice([each for each in self._alive if each not in self._paused])
        member.process.kill()
        self._alive.remove(member)

    def pause_member(self) -> None:
        member = self._random.choice([each for each in self._alive if each not in self._paused])
        member.process.pause()
        self._paused.append(member)

    def kill_coordinator(self) -> None:
        """A broker at a time: a second one would take the last but one of those in sync."""
        described = None
        while described is None:
            described = self.company.describe()
        index = int(described.coordinator.id) - 1
        self._brokers.kill(index)
        self._down.append(index)

    def mend(self) -> None:
        for index in self._down:
            self._brokers.start(index)
        for member in self._paused:
            member.process.resume()
        self._down, self._paused = [], []
        counts = Counter(member.kind for member in self._alive)
        self._alive += [self.company.start(kind) for kind in KINDS for _ in range(2 - counts[kind])]


class Told:
    """Asks all the time what the group has committed: whoever answers, it never goes back (G1, G4)."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.told: dict[int, int] = {}
        self.asked = 0
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._done.is_set():
            try:
                found = self._company.committed()
            except KafkaException:
                continue
            self.asked += 1
            for partition, offset in found.items():
                before = self.told.get(partition, -1)
                if offset < before:
                    self.failures.append(f"{partition}: {offset} was told, where {before} had been")
                self.told[partition] = max(before, offset)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_dozen_members_are_killed_and_paused_and_their_coordinators_killed(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path) as keepers:
        settings = {"min.insync.replicas": "2", **SETTINGS}
        with OttlaBrokers(3, keepers.hosts, tmp_path, settings=settings) as brokers:
            create(brokers.bootstrap, "shared", 2 * PARTITIONS, replicas=3)
            company = Company(brokers.bootstrap, "shared", 2 * PARTITIONS, "dozen", tmp_path)
            try:
                dozen = Dozen(company, brokers, seed=5)
                dozen.settle()
                with Told(company) as watch:
                    for faults in dozen.rounds():
                        for fault in faults:
                            fault()
                        dozen.settle()
                        dozen.mend()
                        dozen.settle()
                    company.wait_all_read()
                company.stop()
            finally:
                for member in company.members:
                    member.process.kill()
            assert not watch.failures, watch.failures[:5]
            assert watch.asked > 20
            company.check_acknowledged()
            company.check_log()
