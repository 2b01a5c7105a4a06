"""The same random requests about groups sent to Apache Kafka 3.9.1 and to ours, and every answer compared.

    python -m tests.compat.group_differential [--seed N] [--requests N] [--all]

With ``--all`` it goes on behind a difference and tells all of them; otherwise it stops at the first.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ottla.wire import ApiKey, ErrorCode, Message
from ottla.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.k18_api_versions import ApiVersionsRequest
from ottla.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.compat.answers import Comparison
from tests.compat.broker_differential import DifferenceError
from tests.compat.brokerpair import SILENCE_S, Answer, Sent, Side, SilenceError, Step, pair
from tests.compat.group_requests import ACTORS, ADMIN, GROUPS, SIZE_MAX, TOPICS, Generator, Model, Move, Party

SETTINGS = {
    "group.max.size": str(SIZE_MAX),
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "1",
    "num.io.threads": "1",
}
"""One thread each, so that Kafka does things in the order in which they arrive; see ``SideParty.settle``."""
TRAIL = 40
"""Answers before a difference that are told with it."""
CONNECTIONS = {actor: number for number, actor in enumerate((*ACTORS, ADMIN), 10)}


class SideParty(Party):
    """One of the two brokers."""

    def __init__(self, side: Side) -> None:
        super().__init__()
        self._side = side
        self._sent: dict[str, Sent] = {}

    def send(self, move: Move) -> None:
        step = Step(
            move.key,
            move.version,
            move.what,
            lambda _side, version: move.make(self, version),
            connection=_connection(move.actor, move.episode),
            client_id=move.actor,
        )
        self._sent[move.actor] = self._side.begin(step)

    def open(self, episode: int) -> None:
        """Connect the actors, so that what they send is read in the order in which it is sent."""
        for actor in CONNECTIONS:
            step = Step(
                ApiKey.API_VERSIONS,
                0,
                "",
                lambda _side, _version: ApiVersionsRequest(),
                connection=_connection(actor, episode),
            )
            self._side.run(step)

    def settle(self, states: Mapping[str, str]) -> None:
        """Be sure that what was sent is done before what is sent next, though no answer may be due.

        When this is answered, all that was sent before has been read, and stands in the queue. What Kafka leaves to a timer
        that is due at once takes a moment longer.
        """
        deadline = time.monotonic() + SILENCE_S
        request = DescribeGroupsRequest(groups=list(states))
        while True:
            found = self._side.ask(request, 5)
            assert isinstance(found, DescribeGroupsResponse)
            told = {group.group_id: group.group_state for group in found.groups}
            if told == states:
                return
            if time.monotonic() > deadline:
                raise DifferenceError(f"{self._side.name} has {told}, where {states} was expected")
            time.sleep(0.001)

    def receive(self, actor: str) -> Answer:
        answer = self._side.finish(self._sent.pop(actor))
        self.learn(actor, answer.outcome if isinstance(answer.outcome, Message) else None)
        return answer

    def topic_id(self, name: str) -> bytes:
        return self._side.topic_id(name)


COORDINATED = (0, 1)
"""Groups and transactions, as FindCoordinator numbers them."""


def _connection(actor: str, episode: int) -> int:
    return CONNECTIONS[actor] + len(CONNECTIONS) * episode


def prepare(side: Side) -> None:
    """Make the topics, and have the side coordinate."""
    topics = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()]
    request = CreateTopicsRequest(topics=topics, timeout_ms=60_000)
    side.run(Step(ApiKey.CREATE_TOPICS, 5, "topics", lambda _side, _version: request))
    deadline = time.monotonic() + SILENCE_S
    while not _coordinates(side):
        assert time.monotonic() < deadline, f"{side.name} does not coordinate"
        time.sleep(0.05)


def _coordinates(side: Side) -> bool:
    for kind in COORDINATED:
        found = side.ask(FindCoordinatorRequest(key=GROUPS[0], key_type=kind), 3)
        assert isinstance(found, FindCoordinatorResponse)
        if found.error_code:
            return False
    wanted = [
        OffsetFetchRequestGroup(group_id=each, topics=[OffsetFetchRequestTopics(name="t")]) for each in "abcdefgh"
    ]
    offsets = side.ask(OffsetFetchRequest(groups=[*wanted, OffsetFetchRequestGroup(group_id=GROUPS[1])]), 8)
    assert isinstance(offsets, OffsetFetchResponse)
    return not any(each.error_code for each in offsets.groups)


def answers(
    left: Side, right: Side, seed: int, count: int, trail: deque[str]
) -> Iterator[tuple[int, Move, Answer, Answer]]:
    """Every answer of both, in pairs, with the number of the request after which it was due."""
    model, parties = Model(), (SideParty(left), SideParty(right))
    generator, episode = Generator(seed, model), -1
    for number, move in enumerate(generator.moves(count)):
        if move.episode != episode:
            episode = move.episode
            for party in parties:
                party.open(episode)
        before = model.states(generator.groups)
        due = model.send(move)
        trail.append(f"{move} {model.states(generator.groups)}")
        for party in parties:
            party.send(move)
        for actor in due:
            one, other = (party.receive(actor) for party in parties)
            yield number, move, one, other
        states = model.states(generator.groups)
        if states != before or move.actor not in due:
            for party in parties:
                party.settle(states)


def compare(left: Side, right: Side, seed: int, count: int) -> Counter[str]:
    """How many answers of which API and version of ours were compared. Raises DifferenceError at the first difference."""
    comparison, compared = Comparison(), Counter[str]()
    before: deque[str] = deque(maxlen=TRAIL)
    try:
        for number, move, one, other in answers(left, right, seed, count, before):
            compared[f"{other.step.key.name} {other.version}"] += 1
            if differences := comparison.differences(one, other):
                raise DifferenceError(
                    "\n  ".join((f"request {number}: {move}", f"answer to {other.step}", *differences))
                )
            before.append(f"    {ErrorCode(getattr(other.outcome, 'error_code', 0)).name} to {other.step.client_id}")
    except (DifferenceError, SilenceError) as error:
        raise DifferenceError("\n".join((*before, str(error)))) from error
    return compared


@contextmanager
def group_pair() -> Iterator[tuple[Side, Side]]:
    """Kafka and ours, ready to coordinate."""
    with pair(SETTINGS) as sides:
        for side in sides:
            prepare(side)
        yield sides


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args(arguments)
    with group_pair() as (left, right):
        if not options.all:
            print(compare(left, right, options.seed, options.requests))
            return 0
        comparison, found, total = Comparison(), 0, 0
        codes: Counter[str] = Counter()
        for number, move, one, other in answers(left, right, options.seed, options.requests, deque(maxlen=1)):
            total += 1
            codes[f"{other.step.key.name} {ErrorCode(getattr(other.outcome, 'error_code', 0)).name}"] += 1
            if differences := comparison.differences(one, other):
                found += 1
                print(
                    f"request {number}: {move}", f"answer to {other.step}", *differences[:6], sep="\n    ", flush=True
                )
        print(*sorted(codes.items()), sep="\n")
        print(f"{found} of {total} answers differ")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
