"""``/brokers/topics/T``: which brokers hold a topic's partitions; ``…/partitions/P/state``: who leads one.

    version 1       partitions: number → replicas, the first one preferred as leader
    version 2       adding_replicas, removing_replicas: a reassignment under way (KIP-455)
    version 3       topic_id (KIP-516)

The state of a partition is conditional on its znode's version, which Kafka calls the partition epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.metadata.documents import Document, encode
from ottla.metadata.errors import ZnodeError
from ottla.metadata.hashorder import mutable_order
from ottla.metadata.ids import NO_LEADER, BrokerId, TopicId, TopicPartition, format_id, parse_id
from ottla.metadata.znodes import paths

VERSION: Final = 3
_STATE_VERSION: Final = 1
_RECOVERING: Final = 1

Replicas = tuple[BrokerId, ...]


class ReplicaAssignment(NamedTuple):
    """The brokers of one partition. During a reassignment, ``replicas`` holds the old and the new ones."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def target_replicas(self) -> Replicas:
        """Where the partition will be in the end."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin_replicas(self) -> Replicas:
        """Where the partition was before the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Replicas) -> ReplicaAssignment:
        """The assignment that begins a move to ``target``; what an earlier, unfinished move added goes away again."""
        origin = self.origin_replicas
        return ReplicaAssignment(
            (*target, *(broker for broker in origin if broker not in target)),
            adding=tuple(broker for broker in target if broker not in origin),
            removing=tuple(broker for broker in origin if broker not in target),
        )


class TopicAssignment(NamedTuple):
    """A topic's id and the replicas of all its partitions. Topics made before Kafka 2.8 have no id yet."""

    topic_id: TopicId | None
    partitions: Mapping[int, ReplicaAssignment]


class LeaderAndIsr(NamedTuple):
    """Who leads a partition and who is in sync; ``partition_epoch`` is the version of the znode it was read from."""

    leader: BrokerId
    leader_epoch: int
    isr: Replicas
    controller_epoch: int
    partition_epoch: int = 0
    recovering: bool = False

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    def with_leader(self, leader: BrokerId, isr: Replicas, *, controller_epoch: int) -> LeaderAndIsr:
        """The next state in which ``leader`` leads, one leader epoch later."""
        return self._replace(
            leader=leader, leader_epoch=self.leader_epoch + 1, isr=isr, controller_epoch=controller_epoch
        )


def encode_topic(topic: TopicAssignment) -> bytes:
    assignments = topic.partitions
    topic_id = {} if topic.topic_id is None else {"topic_id": format_id(topic.topic_id)}
    return encode(
        {
            "partitions": _lists({number: each.replicas for number, each in assignments.items()}),
            **topic_id,
            "adding_replicas": _lists({number: each.adding for number, each in assignments.items() if each.adding}),
            "removing_replicas": _lists(
                {number: each.removing for number, each in assignments.items() if each.removing}
            ),
            "version": VERSION,
        }
    )


def decode_topic(name: str, data: bytes | None) -> TopicAssignment:
    document = Document.parse(paths.topic(name), data)
    # Kafka's oldest writers left the version out.
    if "version" in document:
        document.version(1, 2, VERSION)
    replicas = document.replica_lists("partitions")
    adding = document.replica_lists("adding_replicas") if "adding_replicas" in document else {}
    removing = document.replica_lists("removing_replicas") if "removing_replicas" in document else {}
    if strangers := (adding.keys() | removing.keys()) - replicas.keys():
        raise ZnodeError(f"{document.path}: partitions {sorted(strangers)} are reassigned but do not exist")
    partitions = {
        number: ReplicaAssignment(
            _brokers(replicas[number]), _brokers(adding.get(number, ())), _brokers(removing.get(number, ()))
        )
        for number in sorted(replicas)
    }
    return TopicAssignment(parse_id(document.text("topic_id")) if "topic_id" in document else None, partitions)


def encode_state(state: LeaderAndIsr) -> bytes:
    recovery = {"leader_recovery_state": _RECOVERING} if state.recovering else {}
    return encode(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": _STATE_VERSION,
            **recovery,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_state(where: TopicPartition, data: bytes | None, *, partition_epoch: int) -> LeaderAndIsr:
    document = Document.parse(paths.partition_state(where), data)
    recovery = document.integer("leader_recovery_state", 0)
    if recovery not in {0, _RECOVERING}:
        raise ZnodeError(f"{document.path}: leader_recovery_state must be 0 or 1, and is {recovery}")
    return LeaderAndIsr(
        BrokerId(document.integer("leader")),
        document.integer("leader_epoch"),
        _brokers(document.integers("isr")),
        document.integer("controller_epoch"),
        partition_epoch,
        recovering=recovery == _RECOVERING,
    )


def _lists(partitions: Mapping[int, Replicas]) -> dict[str, list[int]]:
    return mutable_order({str(number): list(replicas) for number, replicas in partitions.items()})


def _brokers(numbers: tuple[int, ...]) -> Replicas:
    return tuple(map(BrokerId, numbers))
