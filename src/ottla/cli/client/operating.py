"""Requests to brokers and to the controller of any Kafka cluster that librdkafka does not make."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from ottla.base.errors import Error
from ottla.cli.client.connection import Target
from ottla.cli.client.replanning import Assignment, Layout, Where
from ottla.scan.connection import Connection
from ottla.scan.errors import ScanError
from ottla.scan.settings import parse_settings
from ottla.wire import ApiKey, ErrorCode, Message
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
_OWN = (1, 2)
"""Sources of a setting: this very topic, this very broker."""
_LOOK_AGAIN_S = 0.2
_PATIENCE_S = 2.0
"""How long a broker that says nothing is waited for before others are asked."""
_OF_THE_BROKER = 0.8
"""The part of the time that a broker may take; the rest is for the way."""

R = TypeVar("R", bound=Message)


class OperationError(Error):
    """What the cluster refused."""


class NoControllerError(OperationError):
    """Nobody answered as the controller in time."""


class Broker(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None


class Partition(NamedTuple):
    leader: int
    replicas: list[int]
    isr: list[int]


class Move(NamedTuple):
    """A partition on its way."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def target(self) -> list[int]:
        return [broker for broker in self.replicas if broker not in self.removing]


class Operations:
    """A cluster, over connections of its own."""

    def __init__(self, target: Target) -> None:
        settings = parse_settings(target.settings)
        self._timeout_s = min(target.timeout_s, settings.timeout_s)
        self._settings = replace(settings, timeout_s=self._timeout_s)
        self._connections: dict[tuple[str, int], Connection] = {}
        self.brokers: dict[int, Broker] = {}
        self.controller_id = -1
        self.partitions: dict[Where, Partition] = {}
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def refresh(self) -> None:
        """Who is there and who leads, as any broker tells."""
        answer = self._ask_any(MetadataRequest(topics=None), MetadataResponse)
        present = self._present()
        self.brokers = {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in answer.brokers
            if present is None or broker.node_id in present
        }
        self.controller_id = answer.controller_id
        self.partitions = {
            (topic.name or "", each.partition_index): Partition(each.leader_id, each.replica_nodes, each.isr_nodes)
            for topic in answer.topics
            for each in topic.partitions
        }

    def layout(self) -> Layout:
        """Where everything will be once the moves that are under way have ended."""
        moves = self.moves()
        self.refresh()  # not before: a move that ended in between would be taken for what it showed on its way
        racks = {broker.broker_id: broker.rack for broker in self.brokers.values()}
        replicas = {
            where: moves[where].target if where in moves else each.replicas for where, each in self.partitions.items()
        }
        removing = {where: move.removing for where, move in moves.items() if where in replicas}
        return Layout(racks, replicas, removing, {where: each.isr for where, each in self.partitions.items()})

    # What only the controller does.

    def elect(self, partitions: Iterable[Where] | None, *, unclean: bool) -> dict[Where, tuple[ErrorCode, str | None]]:
        wanted = None if partitions is None else _by_topic(partitions)
        request = ElectLeadersRequest(
            election_type=int(unclean),
            topic_partitions=None
            if wanted is None
            else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in wanted.items()],
            timeout_ms=self._timeout_ms,
        )
        answer = self._ask_controller(request, ElectLeadersResponse)
        _check(answer.error_code, None)
        return {
            (topic.topic, each.partition_id): (ErrorCode(each.error_code), each.error_message)
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    def reassign(self, plan: Mapping[Where, list[int] | None]) -> dict[Where, tuple[ErrorCode, str | None]]:
        """Begin these moves; None takes one back. Tells what was refused."""
        topics = [
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=number, replicas=plan[topic, number]) for number in numbers
                ],
            )
            for topic, numbers in _by_topic(plan).items()
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=topics)
        answer = self._ask_controller(request, AlterPartitionReassignmentsResponse)
        _check(answer.error_code, answer.error_message)
        return {
            (topic.name, each.partition_index): (ErrorCode(each.error_code), each.error_message)
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code
        }

    def moves(self) -> dict[Where, Move]:
        """What is under way."""
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None)
        answer = self._ask_controller(request, ListPartitionReassignmentsResponse)
        _check(answer.error_code, answer.error_message)
        return {
            (topic.name, each.partition_index): Move(each.replicas, each.adding_replicas, each.removing_replicas)
            for topic in answer.topics
            for each in topic.partitions
        }

    # Settings.

    def min_insync(self, topics: Iterable[str]) -> dict[str, int]:
        resources = [
            DescribeConfigsResource(
                resource_type=TOPIC, resource_name=topic, configuration_keys=["min.insync.replicas"]
            )
            for topic in topics
        ]
        answer = self._ask_any(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
        return {
            result.resource_name: int(config.value)
            for result in answer.results
            for config in result.configs
            if config.value is not None
        }

    def configured(self, kind: int, name: str, keys: Iterable[str]) -> dict[str, str | None]:
        """What these are set to on this one topic or broker, None if they are not, or if the cluster does not tell."""
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
        request = DescribeConfigsRequest(resources=[resource])
        answer = self._ask_of(kind, name, request, DescribeConfigsResponse)
        found = {
            config.name: config.value
            for result in answer.results
            for config in result.configs
            if config.config_source in _OWN
        }
        return {key: found.get(key) for key in keys}

    def configure(self, kind: int, name: str, settings: Mapping[str, str | None]) -> None:
        """Set these, or with None take them back."""
        configs = [
            AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
            for key, value in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = self._ask_of(kind, name, request, IncrementalAlterConfigsResponse)
        for response in answer.responses:
            _check(response.error_code, response.error_message)

    def _ask_of(self, kind: int, name: str, request: Message, answer: type[R]) -> R:
        """A broker tells of its own settings, and changes them; of a topic's, anybody does."""
        return self.ask(self.brokers[int(name)], request, answer) if kind == BROKER else self._ask_any(request, answer)

    # Connections.

    def _present(self) -> set[int] | None:
        """Who is there for certain: Metadata lists a broker of ours a little longer than it lives."""
        if not any(each.speaks(ApiKey.DESCRIBE_CLUSTER) for each in self._connections.values()):
            return None  # a Kafka before 2.8, which lists nobody longer
        answer = self._ask_any(DescribeClusterRequest(), DescribeClusterResponse)
        return None if answer.error_code else {broker.broker_id for broker in answer.brokers}

    def ask(self, broker: Broker, request: Message, answer: type[R]) -> R:
        """What this one broker says."""
        try:
            return self._ask((broker.host, broker.port), request, answer, self._timeout_s)
        except (OSError, ScanError) as error:
            raise OperationError(f"broker {broker.broker_id} does not answer: {error}") from error

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_s * 1000 * _OF_THE_BROKER)

    def _ask_controller(self, request: Message, answer: type[R]) -> R:
        """What takes long is not asked for a second time while it may go on, as long as the same broker rules."""
        deadline = time.monotonic() + self._timeout_s

        def is_in_time() -> bool:
            return time.monotonic() < deadline

        while True:
            broker = self.brokers.get(self.controller_id)
            if broker is not None:
                asked = broker.broker_id

                def rules_still(asked: int = asked) -> bool:
                    self.refresh()
                    return self.controller_id == asked and is_in_time()

                with suppress(OSError, ScanError):
                    response = self._ask((broker.host, broker.port), request, answer, _left(deadline), rules_still)
                    if getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                        return response
            if not is_in_time():
                raise NoControllerError(
                    "there is no controller that answers; 'ottla cluster health' shows what there is"
                )
            time.sleep(_LOOK_AGAIN_S)
            self.refresh()

    def _ask_any(self, request: Message, answer: type[R]) -> R:
        """Who answered before is asked first. Nobody is waited for as long as others are left, until nobody else is."""
        deadline = time.monotonic() + self._timeout_s
        patience_s = _PATIENCE_S
        while True:
            known = dict.fromkeys(
                [*((each.host, each.port) for each in self.brokers.values()), *self._settings.bootstrap]
            )
            failures: dict[tuple[str, int], Exception] = {}
            for address in sorted(known, key=lambda each: each not in self._connections):
                try:
                    return self._ask(address, request, answer, _left(deadline, patience_s))
                except (OSError, ScanError) as error:
                    failures[address] = error
            if time.monotonic() > deadline or not any(isinstance(each, TimeoutError) for each in failures.values()):
                reasons = (f"{host}:{port}: {_reason(error)}" for (host, port), error in failures.items())
                raise OperationError(f"no broker answers ({'; '.join(reasons)})")
            patience_s *= 2

    def _ask(
        self,
        address: tuple[str, int],
        request: Message,
        answer: type[R],
        patience_s: float,
        is_worth_waiting: Callable[[], bool] = lambda: False,
    ) -> R:
        # Out of sight meanwhile: whoever is asked whether it is worth waiting may have to be asked elsewhere.
        connection = self._connections.pop(address, None) or self._opened(address, patience_s)
        try:
            connection.send(request)
            while not connection.has_answer(patience_s):
                if not is_worth_waiting():
                    raise TimeoutError(f"{connection.address} does not answer")
            response = connection.receive(answer)
        except BaseException:
            connection.close()
            raise
        if self._connections.setdefault(address, connection) is not connection:
            connection.close()
        return response

    def _opened(self, address: tuple[str, int], patience_s: float) -> Connection:
        connection = Connection(*address, replace(self._settings, timeout_s=patience_s))
        connection.limit(self._timeout_s)
        return connection


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _left(deadline: float, patience_s: float | None = None) -> float:
    """How long to wait for one broker: never for nothing, and never for all that is left."""
    return min(max(deadline - time.monotonic(), _LOOK_AGAIN_S), patience_s or _PATIENCE_S)


def _by_topic(partitions: Iterable[Where]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def _check(code: int, message: str | None) -> None:
    if code:
        raise OperationError(f"{message or 'the cluster refused it'} ({ErrorCode(code).name})")


def throttled(plan: Assignment, now: Mapping[Where, Partition]) -> tuple[dict[str, str], dict[str, str]]:
    """For each topic, which replicas are sent and which are received at a limited rate while they move, in Kafka's form."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, number), target in sorted(plan.items()):
        held = now[topic, number].replicas
        leaders.setdefault(topic, []).extend(f"{number}:{broker}" for broker in held)
        followers.setdefault(topic, []).extend(f"{number}:{broker}" for broker in target if broker not in held)
    return (
        {topic: ",".join(each) for topic, each in leaders.items()},
        {topic: ",".join(each) for topic, each in followers.items() if each},
    )
