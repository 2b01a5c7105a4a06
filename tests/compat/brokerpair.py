"""Apache Kafka 3.9.1 and a broker of ours side by side, each asked the same things over connections of bytes.

A ``Side`` sends requests and learns from the answers what the next requests need: the ids of topics, producers and fetch
sessions, which differ between two brokers by nature. A step names them by a number or by the topic's name.

Both brokers have the same settings and the same id, and stand on one keeper of ours in trees of their own. Behind whatever
makes or removes topics, a side waits until that has arrived everywhere: a broker may answer before.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from ottla.wire import (
    APIS,
    ApiKey,
    ErrorCode,
    Message,
    decode,
    message_class,
    parse_response_header,
    request_framer,
)
from ottla.wire.messages.k00_produce import ProduceResponse
from ottla.wire.messages.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.k08_offset_commit import OffsetCommitResponse
from ottla.wire.messages.k09_offset_fetch import OffsetFetchResponse
from ottla.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.k20_delete_topics import DeleteTopicsResponse
from ottla.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import SETTINGS, KafkaBrokers

CONNECTIONS: Final = 3
SILENCE_S: Final = 120.0
NOBODYS: Final = b"nobody's"
"""How topic ids begin that were made up for a request."""
NOBODYS_PRODUCER: Final = 1 << 40

SAME_SETTINGS: Final = {
    **SETTINGS,
    "broker.id": "0",
    "auto.create.topics.enable": "true",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "log.segment.delete.delay.ms": "1000",
    "zookeeper.session.timeout.ms": "30000",
    "log.retention.ms": "-1",
    "max.request.partition.size.limit": "7",
}
"""What both are told. Records of any age stay, since the tests give them times of long ago."""


def nobodys_id(name: str) -> bytes:
    """The topic id that stands for a topic that is not there."""
    return NOBODYS + sha256(name.encode()).digest()[:8]


class SilenceError(AssertionError):
    """No answer and no end of the connection either."""


class Closed:
    """The broker ended the connection in place of an answer."""

    def __repr__(self) -> str:
        return "closed"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Closed)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Step:
    """One request, made for each side by ``make(side, version)``; ``meanwhile`` runs between it and its answer."""

    key: ApiKey
    version: int
    what: str
    make: Callable[[Side, int], Message]
    connection: int = 0
    spoil: Callable[[bytes], bytes] | None = None
    """Changes the bytes of the frame behind its length, for requests that nobody can have meant."""
    silent: bool = False
    """No answer is expected: the next thing on this connection is the answer to ``meanwhile``."""
    meanwhile: Step | None = None
    session: int | None = None
    """The number under which a fetch session is remembered, for a fetch that may begin one."""
    client_id: str = "différence"

    def __str__(self) -> str:
        then = f" meanwhile {self.meanwhile}" if self.meanwhile else ""
        return f"[{self.connection}] {APIS[self.key].name} v{self.version} {self.what}{then}"


Outcome = Message | Closed | None


@dataclass
class Answer:
    """What came back for one step, and in which version it was asked."""

    step: Step
    version: int
    outcome: Outcome


class Sent(NamedTuple):
    """A request on its way."""

    step: Step
    version: int
    request: Message
    correlation_id: int


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """The next frame without its length. Raises ConnectionError if there will be none."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError("closed by the broker")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._socket.close()


@dataclass
class Side:
    """One of the two brokers, and what is known of it."""

    name: str
    port: int
    highest: dict[int, int] = field(default_factory=dict)
    """The highest version of each API that is sent here, if that is not the highest there is."""
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    former_ids: list[bytes] = field(default_factory=list)
    mentioned: set[str] = field(default_factory=set)
    producers: list[int] = field(default_factory=list)
    sessions: dict[int, int] = field(default_factory=dict)
    """Fetch sessions by the number a step gives them."""
    client_id: str | None = None
    """In the place of those that steps have."""

    def __post_init__(self) -> None:
        self._connections: dict[int, Connection] = {}
        self._correlation_id = 0
        self._marks = 0

    # What steps refer to.

    def topic_id(self, name: str) -> bytes:
        self.mentioned.add(name)
        return self.topic_ids.get(name) or nobodys_id(name)

    def former_id(self, number: int) -> bytes:
        return self.former_ids[number % len(self.former_ids)] if self.former_ids else nobodys_id("")

    def producer(self, number: int) -> int:
        return self.producers[number % len(self.producers)] if self.producers else NOBODYS_PRODUCER

    def session(self, number: int) -> int:
        return self.sessions.get(number, 0)

    def end_offset(self, name: str) -> int:
        """Of the first partition, now."""
        topic = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        answer = self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 9)
        assert isinstance(answer, ListOffsetsResponse)
        return answer.topics[0].partitions[0].offset

    def wait_for_producer_ids(self) -> None:
        """Kafka answers the first who ask with COORDINATOR_LOAD_IN_PROGRESS, for it draws ids while they wait."""
        deadline = time.monotonic() + SILENCE_S
        while True:
            answer = self.ask(InitProducerIdRequest(transactional_id=None), 4)
            assert isinstance(answer, InitProducerIdResponse)
            if not answer.error_code:
                return
            assert time.monotonic() < deadline, f"{self.name} has no producer ids"
            time.sleep(0.02)

    # Running steps.

    def run(self, step: Step) -> list[Answer]:
        sent = self.begin(step)
        found = [] if step.meanwhile is None else self.run(step.meanwhile)
        return found if step.silent else [self.finish(sent), *found]

    def begin(self, step: Step) -> Sent:
        version = min(step.version, self.highest.get(step.key, step.version))
        request = step.make(self, version)
        return Sent(step, version, request, self._send(step, version, request))

    def finish(self, sent: Sent) -> Answer:
        """Wait for the answer to what was sent."""
        outcome = self._receive(sent.step, sent.version, sent.correlation_id)
        if isinstance(outcome, Message):
            self._learn(sent.step, sent.request, outcome)
            self._name_topics(outcome)
        return Answer(sent.step, sent.version, outcome)

    def ask(self, request: Message, version: int) -> Message:
        """A request of our own, over a connection of its own."""
        key = ApiKey[_NAMES[type(request).__name__]]
        step = Step(key, version, "", lambda _side, _version: request, connection=-1)
        outcome = self._receive(step, version, self._send(step, version, request))
        assert isinstance(outcome, Message), f"{self.name} closed a connection on {request}"
        return outcome

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _send(self, step: Step, version: int, request: Message) -> int:
        self._correlation_id += 1
        client_id = self.client_id or step.client_id
        frame = b"".join(request_framer(type(request), version, client_id)(request, self._correlation_id))
        if step.spoil is not None:
            spoiled = step.spoil(frame[4:])
            frame = struct.pack(">i", len(spoiled)) + spoiled
        if step.connection not in self._connections:
            self._connections[step.connection] = Connection(self.port)
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connections[step.connection].send(frame)
        return self._correlation_id

    def _receive(self, step: Step, version: int, correlation_id: int) -> Outcome:
        try:
            frame = self._connections[step.connection].receive()
        except ConnectionError:
            self._connections.pop(step.connection).close()
            return Closed()
        except TimeoutError as error:
            raise SilenceError(f"{self.name} did not answer {step}") from error
        if version > APIS[step.key].versions.high:
            version = 0
        told, pos = parse_response_header(step.key, version, frame)
        assert told == correlation_id, f"{self.name} answered {told} in place of {correlation_id}: {step}"
        return decode(message_class(f"{APIS[step.key].name}Response"), version, frame, pos)

    # Learning from answers.

    def _learn(self, step: Step, request: Message, response: Message) -> None:
        match response:
            case InitProducerIdResponse() if not response.error_code:
                self.producers.append(response.producer_id)
            case FetchResponse() if isinstance(request, FetchRequest):
                if step.session is not None and request.session_epoch == 0:
                    self.sessions[step.session] = response.session_id
            case CreateTopicsResponse() if isinstance(request, CreateTopicsRequest) and not request.validate_only:
                self._settle(there=[topic.name for topic in response.topics if topic.error_code in _DONE])
            case CreatePartitionsResponse() if (
                isinstance(request, CreatePartitionsRequest) and not request.validate_only
            ):
                counts = {topic.name: topic.count for topic in request.topics}
                done = [result.name for result in response.results if result.error_code in _DONE]
                self._settle(there=done, counts=counts)
            case MetadataResponse():
                made = (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
                self._settle(there=[topic.name for topic in response.topics if topic.error_code in made and topic.name])
            case AlterConfigsResponse() | IncrementalAlterConfigsResponse():
                assert isinstance(request, (AlterConfigsRequest, IncrementalAlterConfigsRequest))
                if not request.validate_only and any(not each.error_code for each in response.responses):
                    self._settle_configs()
            case DeleteTopicsResponse():
                self._settle(gone=[each.name for each in response.responses if each.error_code in _DONE and each.name])

    def _name_topics(self, response: Message) -> None:
        """Put names beside ids where the version has ids alone, so that topics can be sorted as those of older ones.

        Kafka tells the partitions it could not look at last, so that a topic may come twice; here it comes once.
        """
        names = {topic_id: f"~{number}" for number, topic_id in enumerate(self.former_ids)}
        made_up = "" if isinstance(response, ProduceResponse) else "!"
        names |= {nobodys_id(name): name + made_up for name in self.mentioned}
        names |= {topic_id: name for name, topic_id in self.topic_ids.items()}
        if isinstance(response, ProduceResponse):
            for topic in response.responses:
                topic.name = topic.name or names.get(topic.topic_id, "")
        if isinstance(response, OffsetCommitResponse):
            for committed in response.topics:
                committed.name = committed.name or names.get(committed.topic_id, "").removesuffix("!")
        if isinstance(response, OffsetFetchResponse):
            for fetched in (topic for group in response.groups for topic in group.topics):
                fetched.name = fetched.name or names.get(fetched.topic_id, "").removesuffix("!")
        if isinstance(response, FetchResponse):
            merged: dict[tuple[str, bytes], FetchableTopicResponse] = {}
            for each in response.responses:
                found = merged.setdefault((each.topic, each.topic_id), each)
                if found is not each:
                    found.partitions += each.partitions
            for each in merged.values():
                each.topic = each.topic or names.get(each.topic_id, "")
            response.responses = list(merged.values())

    def _settle(
        self, *, there: Iterable[str] = (), gone: Iterable[str] = (), counts: dict[str, int] | None = None
    ) -> None:
        """Wait until topics are served, or until nothing is left of them."""
        deadline = time.monotonic() + SILENCE_S
        for name in there:
            while not self._is_served(name, (counts or {}).get(name, 1)):
                assert time.monotonic() < deadline, f"{self.name} does not serve {name}"
                time.sleep(0.005)
        for name in gone:
            while not self._is_gone(name):
                assert time.monotonic() < deadline, f"{self.name} does not get rid of {name}"
                time.sleep(0.005)
            if (former := self.topic_ids.pop(name, None)) is not None:
                self.former_ids.append(former)

    def _settle_configs(self) -> None:
        """Wait until settings that were changed hold. Brokers take on changes one after another: a mark follows the last."""
        self._marks += 1
        mark, former = f"tests.mark.{self._marks}", f"tests.mark.{self._marks - 1}"
        changes = [AlterableConfig(name=mark, value="x"), AlterableConfig(name=former, config_operation=1, value=None)]
        own = AlterConfigsResource(resource_type=_BROKER, resource_name="0", configs=changes)
        answer = self.ask(IncrementalAlterConfigsRequest(resources=[own]), 1)
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        assert not answer.responses[0].error_code, answer
        asked = DescribeConfigsResource(resource_type=_BROKER, resource_name="0", configuration_keys=[mark])
        deadline = time.monotonic() + SILENCE_S
        while True:
            answer = self.ask(DescribeConfigsRequest(resources=[asked]), 4)
            assert isinstance(answer, DescribeConfigsResponse)
            if answer.results[0].configs:
                return
            assert time.monotonic() < deadline, f"{self.name} does not take on what was changed"
            time.sleep(0.005)

    def _is_served(self, name: str, count: int) -> bool:
        wanted = [MetadataRequestTopic(name=name)]
        answer = self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
        assert isinstance(answer, MetadataResponse)
        (topic,) = answer.topics
        if topic.error_code or len(topic.partitions) < count or any(each.error_code for each in topic.partitions):
            return False
        self.topic_ids[name] = topic.topic_id
        numbers = [ListOffsetsPartition(partition_index=each.partition_index) for each in topic.partitions]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=numbers)])
        offsets = self.ask(request, 9)
        assert isinstance(offsets, ListOffsetsResponse)
        return not any(each.error_code for each in offsets.topics[0].partitions)

    def _is_gone(self, name: str) -> bool:
        probe = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        answer = self.ask(CreateTopicsRequest(topics=[probe], validate_only=True), 7)
        assert isinstance(answer, CreateTopicsResponse)
        return answer.topics[0].error_code != ErrorCode.TOPIC_ALREADY_EXISTS


_BROKER: Final = 4
_DONE = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
_NAMES = {f"{api.name}Request": key.name for key, api in APIS.items()}


def highest_versions(port: int) -> dict[int, int]:
    """What a broker says it takes, by ApiVersions 3."""
    from ottla.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

    side = Side("", port)
    try:
        request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        answer = side.ask(request, 3)
    finally:
        side.close()
    assert isinstance(answer, ApiVersionsResponse)
    assert not answer.error_code
    return {each.api_key: each.max_version for each in answer.api_keys}


@contextmanager
def twins() -> Iterator[tuple[Side, Side]]:
    """Two of ours, fresh: whoever compares them finds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with (
            OttlaKeepers(1, home) as keepers,
            OttlaBrokers(1, f"{keepers.hosts}/one", home / "one", settings=SAME_SETTINGS) as one,
            OttlaBrokers(1, f"{keepers.hosts}/two", home / "two", settings=SAME_SETTINGS) as two,
        ):
            sides = Side("one", one.ports[0]), Side("two", two.ports[0])
            try:
                yield sides
            finally:
                for side in sides:
                    side.close()


@contextmanager
def pair(more: Mapping[str, str] | None = None) -> Iterator[tuple[Side, Side]]:
    """Kafka and ours, both fresh, with ``more`` settings."""
    settings = {**SAME_SETTINGS, **(more or {})}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with OttlaKeepers(1, home) as keepers:
            kafka = KafkaBrokers(1, f"{keepers.hosts}/kafka", home / "kafka", settings=settings)
            kafka.brokers[0].start()
            try:
                ours = OttlaBrokers(1, f"{keepers.hosts}/ottla", home, settings=settings)
                with ours:
                    kafka.wait_started(0, times=1)
                    sides = (
                        Side("Kafka", kafka.ports[0], highest_versions(kafka.ports[0])),
                        Side("Ottla", ours.ports[0]),
                    )
                    try:
                        for side in sides:
                            side.wait_for_producer_ids()
                        yield sides
                    finally:
                        for side in sides:
                            side.close()
                        if keep := os.environ.get("KEEP_LOGS"):
                            Path(keep).write_text(
                                kafka.brokers[0].tail(3000) + "\n=====\n" + ours.brokers[0].tail(3000)
                            )
            finally:
                kafka.stop()
