"""Brokers that tell of a cluster what a test wants them to, or accept connections and say nothing."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from ottla.cli.client.operating import TOPIC
from ottla.wire import APIS, ApiKey, ErrorCode, Message, decoder, in_memory, parse_request_header, response_framer
from ottla.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.k43_elect_leaders import ElectLeadersResponse
from ottla.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.messages.k60_describe_cluster import DescribeClusterBroker, DescribeClusterResponse

HOST = "127.0.0.1"
KEYS = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_CLUSTER,
)
OF_THE_CONTROLLER: dict[ApiKey, Callable[..., Message]] = {
    ApiKey.ELECT_LEADERS: ElectLeadersResponse,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsResponse,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsResponse,
}


class Offsets:
    """An admin client that is told by brokers what a test wants it to be told."""

    def __init__(self, *told: int | KafkaError) -> None:
        self._told = told

    def list_offsets(self, wanted: dict[TopicPartition, OffsetSpec], **_: object) -> dict[TopicPartition, Any]:
        futures = {partition: Future[ListOffsetsResultInfo]() for partition in wanted}
        for partition, future in futures.items():
            told = self._told[partition.partition]
            if isinstance(told, KafkaError):
                future.set_exception(KafkaException(told))
            else:
                future.set_result(ListOffsetsResultInfo(told, -1, -1))
        return futures


class StandIns:
    """A cluster of them. ``partitions`` of the topic ``t``: leader, replicas and in-sync replicas of each."""

    def __init__(self, *brokers: int) -> None:
        self.controller = brokers[0]
        self.partitions: list[tuple[int, list[int], list[int]]] = []
        self.adding: dict[int, list[int]] = {}
        """Which replicas of a partition of it are new."""
        self.removing: dict[int, list[int]] = {}
        self.settings: dict[tuple[int, str], dict[str, str]] = {}
        """Of topics and brokers, by the number of the kind and the name."""
        self.refused: dict[int, ErrorCode] = {}
        """Which partitions of it cannot be reassigned."""
        self.logs: dict[int, bytes] = {}
        """One batch with one record, the whole of partition 0 as this broker has it."""
        self.alive = set(brokers)
        self.next_controller: int | None = None
        """Who rules once somebody has asked twice."""
        self.asked: list[tuple[int, ApiKey]] = []
        self.over = threading.Event()
        self._brokers = {broker: _StandIn(self, broker) for broker in brokers}

    @contextmanager
    def running(self) -> Iterator[StandIns]:
        with ExitStack() as stack:
            for each in self._brokers.values():
                stack.enter_context(each)
                threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True).start()
                stack.callback(each.shutdown)
            stack.callback(self.over.set)
            yield self

    def bootstrap(self, *brokers: int) -> str:
        return ",".join(f"{HOST}:{self._brokers[broker].server_address[1]}" for broker in brokers or self._brokers)

    def silence(self, broker: int) -> None:
        self._brokers[broker].is_silent = True

    def kill(self, broker: int) -> None:
        """Its address refuses connections from now on."""
        self._brokers[broker].shutdown()
        self._brokers[broker].server_close()

    def times(self, broker: int, key: ApiKey) -> int:
        return self.asked.count((broker, key))

    def answer(self, broker: int, key: ApiKey, request: Any) -> Message:
        match key:
            case ApiKey.API_VERSIONS:
                offered = [(each, APIS[each].offered) for each in KEYS]
                return ApiVersionsResponse(
                    api_keys=[ApiVersion(api_key=each, min_version=of.low, max_version=of.high) for each, of in offered]
                )
            case ApiKey.METADATA:
                return self._metadata()
            case ApiKey.DESCRIBE_CLUSTER:
                return DescribeClusterResponse(
                    brokers=[DescribeClusterBroker(broker_id=each, host=HOST, port=1) for each in sorted(self.alive)]
                )
            case ApiKey.DESCRIBE_CONFIGS:
                return self._settings(request)
            case ApiKey.LIST_OFFSETS:
                return ListOffsetsResponse(
                    topics=[ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(offset=0)])]
                )
            case ApiKey.FETCH:
                data = PartitionData(high_watermark=1, records=self.logs[broker])
                return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
            case ApiKey.INCREMENTAL_ALTER_CONFIGS:
                return self._configure(request)
        code = ErrorCode.NONE if broker == self.controller else ErrorCode.NOT_CONTROLLER
        if key == ApiKey.LIST_PARTITION_REASSIGNMENTS and not code:
            return self._moves()
        if key == ApiKey.ALTER_PARTITION_REASSIGNMENTS and not code:
            return self._refusals()
        return OF_THE_CONTROLLER[key](error_code=code)

    def _settings(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = [
            DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[
                    DescribeConfigsResourceResult(
                        name=name, value=value, config_source=1 if each.resource_type == TOPIC else 2
                    )
                    for name, value in self.settings.get((each.resource_type, each.resource_name), {}).items()
                ],
            )
            for each in request.resources
        ]
        return DescribeConfigsResponse(results=results)

    def _configure(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        for each in request.resources:
            settings = self.settings.setdefault((each.resource_type, each.resource_name), {})
            for config in each.configs:
                settings.pop(config.name, None)
                if config.value is not None:
                    settings[config.name] = config.value
        return IncrementalAlterConfigsResponse()

    def _refusals(self) -> AlterPartitionReassignmentsResponse:
        refused = [
            ReassignablePartitionResponse(partition_index=number, error_code=code, error_message=None)
            for number, code in self.refused.items()
        ]
        return AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse(name="t", partitions=refused)])

    def _moves(self) -> ListPartitionReassignmentsResponse:
        moves = [
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=self.partitions[number][1],
                adding_replicas=new,
                removing_replicas=self.removing.get(number, []),
            )
            for number, new in self.adding.items()
        ]
        topics = [OngoingTopicReassignment(name="t", partitions=moves)] if moves else []
        return ListPartitionReassignmentsResponse(topics=topics)

    def _metadata(self) -> MetadataResponse:
        if self.next_controller is not None and sum(key == ApiKey.METADATA for _, key in self.asked) > 1:
            self.controller = self.next_controller
        return MetadataResponse(
            controller_id=self.controller,
            brokers=[
                MetadataResponseBroker(node_id=each.broker_id, host=HOST, port=each.server_address[1])
                for each in self._brokers.values()
            ],
            topics=[
                MetadataResponseTopic(
                    name="t",
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=number, leader_id=leader, replica_nodes=replicas, isr_nodes=isr
                        )
                        for number, (leader, replicas, isr) in enumerate(self.partitions)
                    ],
                )
            ],
        )


class _StandIn(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, cluster: StandIns, broker_id: int) -> None:
        super().__init__((HOST, 0), _Conversation)
        self.cluster = cluster
        self.broker_id = broker_id
        self.is_silent = False


class _Conversation(socketserver.StreamRequestHandler):
    server: Any

    def handle(self) -> None:
        while size := self.rfile.read(4):
            frame = self.rfile.read(int.from_bytes(size))
            number, version, correlation_id, _, pos = parse_request_header(frame)
            key = ApiKey(number)
            self.server.cluster.asked.append((self.server.broker_id, key))
            if self.server.is_silent:
                self.server.cluster.over.wait()
                return
            request = decoder(APIS[key].request, version)(frame, pos)
            answer = self.server.cluster.answer(self.server.broker_id, key, request)
            parts = response_framer(type(answer), version)(answer, correlation_id)
            self.wfile.write(b"".join(map(in_memory, parts)))
