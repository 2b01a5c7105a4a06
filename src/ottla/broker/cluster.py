"""The cluster as this broker knows it: the newest image, and who wants to hear of a newer one.

A broker that was just started listens before it knows anything, since its controller has to reach it. It is *settled* once it
has been told of the cluster and leads what it is told it leads, and what only it can lead. Until then clients wait for its metadata: nobody is told
that a topic does not exist only because this broker has not heard of it, or sent to a leader that does not lead yet.

A leader that hung up on those who fetch from it may be gone. Who asks for it then waits a moment for the controller's verdict:
a client that is sent back to a dead leader asks again after a second only. A client that a leader hung up on may be quicker to
ask than this broker is to hear the same, so who asks for a leader that is fetched from waits for two milliseconds in any case.
A broker that is gone is told of a little longer, though it leads nothing: librdkafka takes a second to find the new leader if
the old one leaves the list at the same time.
Likewise, who leads or follows here in a newer epoch than clients are told of waits with its answer until they are: the old leader
refuses its clients as soon as it hears of the new one, and would send them back to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from ottla.base.clock import Clock, SystemClock
from ottla.broker.updates import Update
from ottla.metadata.ids import NO_LEADER, BrokerId, TopicPartition
from ottla.metadata.image import Image, LiveBroker, Topic
from ottla.metadata.znodes.brokers import Endpoint
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.replica.fetchers import VERDICT_S
from ottla.wire import ErrorCode

PARTING_S: Final = 3.0
"""How long clients are told of a broker that is gone."""

Listed = tuple[BrokerId, Endpoint, str | None]
"""A broker's id, where it is, and its rack."""


class PartitionView(NamedTuple):
    """One partition as a client that came through some listener is told of it."""

    number: int
    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class ClusterView:
    def __init__(
        self,
        *,
        is_settled: bool = True,
        followed: Callable[[], Collection[BrokerId]] = frozenset,
        cut_off: Callable[[], Collection[BrokerId]] = frozenset,
        clock: Clock | None = None,
    ) -> None:
        """``followed``: the leaders that are fetched from; ``cut_off``: those that hung up on whoever does so."""
        self.image = Image()
        self.is_settled = is_settled
        self._followed = followed
        self._cut_off = cut_off
        self._clock = clock or SystemClock()
        self._parting: dict[BrokerId, tuple[LiveBroker, float]] = {}
        self._offline: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._coming: dict[TopicPartition, tuple[LeaderAndIsr, float]] = {}
        """Leaders that this broker obeys already, each until clients are told or should have been."""
        self._waiting: list[Callable[[], None]] = []
        self._waiting_to_settle: list[Callable[[], None]] = []

    def update(self, image: Image) -> None:
        gone = self.image.brokers.keys() - image.brokers.keys()
        if gone:
            until_s = self._clock.monotonic() + PARTING_S
            self._parting.update({broker: (self.image.brokers[broker], until_s) for broker in gone})
        self.image = image
        self._coming = {where: each for where, each in self._coming.items() if self._is_news(where, each[0])}
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def apply(self, update: Update) -> None:
        """Take on what the controller told."""
        for where in update.deleted:
            self._offline.pop(where, None)
        self._offline.update(update.offline)
        self.update(update.image)

    def reachable(self, listener: str) -> list[Listed]:
        """The live brokers that have this listener."""
        return _listed(self.image.brokers.values(), listener)

    def parting(self, listener: str) -> list[Listed]:
        """The brokers that were there a moment ago."""
        now_s = self._clock.monotonic()
        self._parting = {
            broker: (live, until_s)
            for broker, (live, until_s) in self._parting.items()
            if until_s > now_s and broker not in self.image.brokers
        }
        return _listed((live for live, _ in self._parting.values()), listener)

    def expect(self, where: TopicPartition, state: LeaderAndIsr) -> None:
        """This broker obeys a leader, and the controller is about to tell everybody of it."""
        if self._is_news(where, state):
            self._coming[where] = state, self._clock.monotonic() + VERDICT_S

    def _is_news(self, where: TopicPartition, state: LeaderAndIsr) -> bool:
        known = self.image.state(where)
        return known is not None and known.leader != state.leader and known.leader_epoch < state.leader_epoch

    def is_in_doubt(self, topics: Iterable[str] | None) -> bool:
        """Whether one of these topics, or any, has a leader that may be gone, or that is not the leader any more."""
        cut_off = self._cut_off()
        if self._coming:
            now_s, named = self._clock.monotonic(), None if topics is None else set(topics)
            if any(
                now_s < until_s and (named is None or where.topic in named)
                for where, (_, until_s) in self._coming.items()
            ):
                return True
        return self._is_led_by(cut_off, topics)

    def is_watched(self, topics: Iterable[str] | None) -> bool:
        """Whether one of these topics, or any, has a leader whose end would be noticed here."""
        return self._is_led_by(self._followed(), topics)

    def _is_led_by(self, leaders: Collection[BrokerId], topics: Iterable[str] | None) -> bool:
        if not leaders:
            return False
        known = self.image.topics
        concerned = known.values() if topics is None else (known[name] for name in topics if name in known)
        return any(state.leader in leaders for topic in concerned for state in topic.states.values())

    def partitions(self, topic: Topic, listener: str) -> Iterator[PartitionView]:
        """The partitions of a topic in order, each with its leader if a client of ``listener`` can reach that."""
        brokers = self.image.brokers
        for where, assignment, state in topic.leaders():
            leader = NO_LEADER if state is None else state.leader
            error = ErrorCode.NONE
            if leader not in brokers:
                leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
            elif self.image.endpoint(leader, listener) is None:
                leader, error = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
            yield PartitionView(
                where.partition,
                error,
                leader,
                -1 if state is None else state.leader_epoch,
                list(assignment.replicas),
                [] if state is None else list(state.isr),
                [
                    broker
                    for broker in assignment.replicas
                    if broker not in brokers or broker in self._offline.get(where, ())
                ],
            )

    @property
    def controller_id(self) -> int:
        return -1 if self.image.controller is None else self.image.controller.broker_id

    def when_changed(self, wake: Callable[[], None]) -> None:
        """Call once, after the next update."""
        self._waiting.append(wake)

    def when_settled(self, wake: Callable[[], None]) -> None:
        """Call once, when this broker knows of the cluster and leads what it is to lead."""
        self._waiting_to_settle.append(wake)

    def settle(self) -> None:
        """It does, or nobody is to wait for that any longer."""
        self.is_settled = True
        waiting, self._waiting_to_settle = self._waiting_to_settle, []
        for wake in waiting:
            wake()


def _listed(brokers: Iterable[LiveBroker], listener: str) -> list[Listed]:
    found = ((live.registration, live.registration.endpoint(listener)) for live in brokers)
    return [(one.broker_id, endpoint, one.rack) for one, endpoint in found if endpoint is not None]
