"""Topics made, grown and deleted."""

from __future__ import annotations

from typing import Final

from ottla.wire import ApiKey, Message
from ottla.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.compat.brokerpair import Side, Step
from tests.compat.requests.drawing import BAD_NAMES, COLLIDED, COLLIDING, NAMES, ROLLED, Drawing

VALID_CONFIGS: Final[tuple[dict[str, str | None], ...]] = (
    {},
    {},
    {},
    {"retention.ms": "31536000000000"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete", "max.message.bytes": "500"},
    {"max.message.bytes": "700"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "gzip"},
    {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"},
    {"compression.type": "uncompressed"},
    {"compression.type": "lz4", "cleanup.policy": "compact"},
    {"compression.type": "snappy"},
    {"message.timestamp.difference.max.ms": "3600000"},
    {"min.insync.replicas": "2"},
    {"message.timestamp.before.max.ms": "3600000"},
    {"message.timestamp.after.max.ms": "3600000", "flush.messages": "3"},
    {"segment.ms": "600000", "index.interval.bytes": "100", "segment.index.bytes": "1024"},
    {"unclean.leader.election.enable": "TRUE", "min.cleanable.dirty.ratio": "0.25"},
    {"cleanup.policy": " compact , delete ", "retention.bytes": " 1000000 "},
    {"follower.replication.throttled.replicas": "0:0,1:0", "preallocate": "false"},
)
INVALID_CONFIGS: Final[tuple[dict[str, str | None], ...]] = (
    {"nonsense": "1"},
    {"retention.ms": "soon"},
    {"retention.ms": "-5"},
    {"retention.ms": None},
    {"cleanup.policy": "shred"},
    {"max.message.bytes": "-1"},
    {"max.message.bytes": "99999999999"},
    {"compression.type": "rar"},
    {"segment.bytes": "13"},
    {"min.insync.replicas": "0"},
    {"unclean.leader.election.enable": "maybe"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"message.timestamp.type": "NoTime"},
    {"min.cleanable.dirty.ratio": "1.5"},
    {"leader.replication.throttled.replicas": "everything"},
    {"compression.gzip.level": "0"},
    {"remote.storage.enable": "true"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.delete.on.disable": "true", "remote.storage.enable": "true"},
    {"min.cleanable.dirty.ratio": "-5"},
    {"cleanup.policy": "compact, shred"},
    {"": "x"},
)
UNPLACED: Final = ("", ".", "..", "a/b")
"""Names that CreatePartitions of Kafka 3.9 fails on with UNKNOWN_SERVER_ERROR, for they make no path of a znode."""
_DELETE_BY_STATE: Final = 6


class Topics(Drawing):
    def _create_plainly(self, name: str) -> Step:
        self._partitions[name] = 2
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        if name == ROLLED:
            topic.configs = [CreatableTopicConfig(name="segment.bytes", value="2000")]
        request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
        return self._step(ApiKey.CREATE_TOPICS, f"{name} plainly", lambda _side, _version: request)

    def _create(self) -> Step:
        draw = self._draw
        topics = [self._new_topic() for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        topics = _without_collision(topics)
        validate_only = draw.random() < 0.25
        timeout_ms = draw.choice((20_000, 20_000, 20_000, 20_000, 0, -1))
        request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        if not validate_only:
            for topic in topics:
                if topic.name in NAMES:
                    self._partitions.setdefault(topic.name, max(1, topic.num_partitions, len(topic.assignments)))
        # Versions below 4 have no way to leave the numbers to the broker.
        numbered = all(each.num_partitions > 0 or each.assignments for each in topics)
        least = 0 if numbered else 4
        return self._step(
            ApiKey.CREATE_TOPICS, f"{topics} {timeout_ms=} {validate_only=}", lambda _s, _v: request, least=least
        )

    def _new_topic(self) -> CreatableTopic:
        draw = self._draw
        missing = [name for name in NAMES if name not in self._partitions]
        name = draw.choice(missing) if missing and draw.random() < 0.7 else draw.choice((*NAMES, COLLIDING, *BAD_NAMES))
        if draw.random() < 0.03:
            name = "__cluster_metadata"
        configs = draw.choice(INVALID_CONFIGS if draw.random() < 0.25 else VALID_CONFIGS)
        if "compression.type" in configs:
            self._packed.add(name)
        topic = CreatableTopic(
            name=name,
            num_partitions=draw.choice((1, 2, 3, 4, -1, -1)),
            replication_factor=draw.choice((1, 1, -1)),
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        match draw.randrange(12):
            case 0:
                topic.num_partitions = draw.choice((0, -2))
            case 1:
                topic.replication_factor = draw.choice((0, 2, -3))
            case 2:
                topic.num_partitions = topic.replication_factor = -1
                topic.assignments = self._manual()
            case 3 if draw.random() < 0.3:
                topic.assignments = self._manual()
        return topic

    def _manual(self) -> list[CreatableReplicaAssignment]:
        kind = self._draw.randrange(6)
        replicas = [0, 0] if kind == 0 else [0]
        numbers = [0, 2] if kind == 1 else list(range(self._draw.randint(1, 3)))
        return [CreatableReplicaAssignment(partition_index=number, broker_ids=replicas) for number in numbers]

    def _delete(self) -> Step:
        draw = self._draw
        names = [name for name in (self._name() for _ in range(draw.choice((1, 1, 1, 2)))) if name != ROLLED]
        timeout_ms = draw.choice((20_000, 20_000, 20_000, 0))
        by = draw.choice(("name", "name", "name", "name", "id", "former id", "both", "neither"))
        if timeout_ms == 0:
            names = names[:1]  # Kafka tells only one of two entries for the same topic that the time is up
        for name in names:
            if by in {"name", "id"}:
                self._partitions.pop(name, None)

        def make(side: Side, version: int) -> Message:
            if version < _DELETE_BY_STATE:
                return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
            states = [DeleteTopicState(name=name) for name in names]
            for number, state in enumerate(states):
                if by in {"id", "both"}:
                    state.topic_id = side.topic_id(names[number])
                if by == "former id":
                    state.topic_id = side.former_id(number)
                if by not in {"name", "both"}:
                    state.name = None
            return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

        return self._step(
            ApiKey.DELETE_TOPICS, f"{names} by {by} {timeout_ms=}", make, least=0 if by == "name" else _DELETE_BY_STATE
        )

    def _grow(self) -> Step:
        draw = self._draw
        topics = []
        for _ in range(draw.choice((1, 1, 1, 2))):
            while (name := self._name()) in UNPLACED:
                pass
            now = self._partitions.get(name, 1)
            count = draw.choice((now + 1, now + 1, now + 2, now, now - 1, 0, -3))
            count = min(count, 6)
            more = max(count - now, 0)
            given: list[list[int]] | None = None
            match draw.randrange(7):
                case 0:
                    given = [[0]] * more
                case 1:
                    given = [[0]] * (more + 1)
                case 2:
                    given = [list(draw.choice(((0, 0), (5,), ())))] * draw.choice((more, 0))
            assignments = None if given is None else [CreatePartitionsAssignment(broker_ids=each) for each in given]
            topics.append(CreatePartitionsTopic(name=name, count=count, assignments=assignments))
        validate_only = draw.random() < 0.3
        timeout_ms = draw.choice((20_000, 20_000, 20_000, 0))
        if not validate_only:
            for topic in topics:
                if topic.name in self._partitions and topic.assignments is None:
                    self._partitions[topic.name] = max(self._partitions[topic.name], topic.count)
        request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        return self._step(
            ApiKey.CREATE_PARTITIONS, f"{topics} {timeout_ms=} {validate_only=}", lambda _side, _version: request
        )


def _without_collision(topics: list[CreatableTopic]) -> list[CreatableTopic]:
    """Two names that exclude each other are not sent together: which of them Kafka makes, it leaves to a hash map."""
    if COLLIDING in {topic.name for topic in topics}:
        return [topic for topic in topics if topic.name != COLLIDED]
    return topics
