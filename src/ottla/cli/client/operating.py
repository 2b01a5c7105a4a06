"""Requests to brokers and to the controller of any Kafka cluster that librdkafka does not make."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from ottla.base.errors import Error
from ottla.cli.client.connection import Target
from ottla.cli.client.replanning import Assignment, Layout, Where
from ottla.scan.connection import Connection
from ottla.scan.errors import ScanError
from ottla.scan.settings import parse_settings
from ottla.wire import ErrorCode, Message
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

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
_LOOK_AGAIN_S = 0.2

R = TypeVar("R", bound=Message)


class OperationError(Error):
    """What the cluster refused."""


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


class Operations:
    """A cluster, over connections of its own."""

    def __init__(self, target: Target) -> None:
        self._settings = parse_settings(target.settings)
        self._timeout_s = target.timeout_s
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
        self.brokers = {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack) for broker in answer.brokers
        }
        self.controller_id = answer.controller_id
        self.partitions = {
            (topic.name or "", each.partition_index): Partition(each.leader_id, each.replica_nodes, each.isr_nodes)
            for topic in answer.topics
            for each in topic.partitions
        }

    def layout(self) -> Layout:
        racks = {broker.broker_id: broker.rack for broker in self.brokers.values()}
        return Layout(racks, {where: each.replicas for where, each in self.partitions.items()})

    # What only the controller does.

    def elect(self, partitions: Iterable[Where] | None, *, unclean: bool) -> dict[Where, tuple[ErrorCode, str | None]]:
        wanted = None if partitions is None else _by_topic(partitions)
        request = ElectLeadersRequest(
            election_type=int(unclean),
            topic_partitions=None
            if wanted is None
            else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in wanted.items()],
            timeout_ms=int(self._timeout_s * 1000),
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
        request = AlterPartitionReassignmentsRequest(timeout_ms=int(self._timeout_s * 1000), topics=topics)
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
        request = ListPartitionReassignmentsRequest(timeout_ms=int(self._timeout_s * 1000), topics=None)
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

    def configure(self, kind: int, name: str, settings: Mapping[str, str | None]) -> None:
        """Set these, or with None take them back. A broker changes its own."""
        configs = [
            AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
            for key, value in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        broker = self.brokers[int(name)] if kind == BROKER else None
        answer = (
            self._ask_any(request, IncrementalAlterConfigsResponse)
            if broker is None
            else self.connection(broker.host, broker.port).ask(request, IncrementalAlterConfigsResponse)
        )
        for response in answer.responses:
            _check(response.error_code, response.error_message)

    # Connections.

    def connection(self, host: str, port: int) -> Connection:
        found = self._connections.get((host, port))
        if found is None:
            found = self._connections[host, port] = Connection(host, port, self._settings)
        return found

    def _ask_controller(self, request: Message, answer: type[R]) -> R:
        deadline = time.monotonic() + self._timeout_s
        while True:
            broker = self.brokers.get(self.controller_id)
            if broker is not None:
                response = self.connection(broker.host, broker.port).ask(request, answer)
                if getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                    return response
            if time.monotonic() > deadline:
                raise OperationError("there is no controller that answers; 'ottla cluster health' shows what there is")
            time.sleep(_LOOK_AGAIN_S)
            self.refresh()

    def _ask_any(self, request: Message, answer: type[R]) -> R:
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        failure: Exception | None = None
        for host, port in (*known, *self._settings.bootstrap):
            try:
                return self.connection(host, port).ask(request, answer)
            except (OSError, ScanError) as error:
                self._connections.pop((host, port), None)
                failure = error
        raise OperationError(f"no broker answers: {failure}")


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
