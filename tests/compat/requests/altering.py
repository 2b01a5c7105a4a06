"""Settings of topics, of the broker and of all brokers changed, at once and one by one."""

from __future__ import annotations

from typing import Final

from ottla.wire import ApiKey, Message
from ottla.wire.messages import k33_alter_configs as whole
from ottla.wire.messages import k44_incremental_alter_configs as incremental
from tests.compat.brokerpair import Side, Step
from tests.compat.requests.drawing import Drawing
from tests.compat.requests.topics import INVALID_CONFIGS, UNPLACED, VALID_CONFIGS

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
LISTS: Final = ("cleanup.policy", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
BROKER_CONFIGS: Final[tuple[dict[str, str | None], ...]] = (
    {},
    {"log.retention.ms": "-1", "message.max.bytes": "900000"},
    {"message.max.bytes": "1000000"},
    {"log.segment.bytes": "2000000"},
    {"log.cleanup.policy": "delete"},
    {"log.flush.interval.messages": "50"},
    {"min.insync.replicas": "1", "max.connections.per.ip": "500"},
    {"max.connections.per.ip.overrides": "127.0.0.1:500,10.0.0.1:3"},
    {"num.io.threads": "3", "background.threads": "3"},
    {"compression.type": "producer", "log.message.timestamp.type": "CreateTime"},
    {"leader.replication.throttled.rate": "100000"},
    {"somebody.elses": "setting"},
    {"log.roll.ms": "86400000", "log.roll.jitter.ms": "0"},
    {"producer.id.expiration.ms": "80000000"},
    {"listener.name.plaintext.max.connections": "600"},
    {"unclean.leader.election.enable": "true"},
)
REFUSED_CONFIGS: Final[tuple[dict[str, str | None], ...]] = (
    {"log.dirs": "/elsewhere"},
    {"broker.id": "5", "num.partitions": "3"},
    {"log.segment.bytes": "3"},
    {"log.segment.bytes": "a few"},
    {"message.max.bytes": None},
    {"ssl.keystore.type": "PEM"},
    {"num.io.threads": "100"},
    {"num.io.threads": "0"},
    {"background.threads": "30"},
    {"log.cleaner.threads": "7"},
    {"log.retention.ms": "0"},
    {"log.retention.ms": "-5"},
    {"log.roll.ms": "0"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip.overrides": "some where:5"},
    {"max.connections.per.ip.overrides": "somewhere"},
    {"max.connections.per.ip.overrides": "somewhere:few"},
    {"listener.name.plaintext.max.connection.creation.rate": "0"},
    {"log.cleaner.min.cleanable.ratio": "-5"},
    {"log.cleanup.policy": "compact, shred"},
    {"leader.replication.throttled.rate": "-1"},
    {"listener.name.plaintext.max.connections": "none"},
    {"listeners": "PLAINTEXT://:9", "log.cleanup.policy": "shred"},
    {"unclean.leader.election.enable": "perhaps"},
)


class Altering(Drawing):
    def _resource(self) -> tuple[int, str, dict[str, str | None]]:
        draw = self._draw
        kind = draw.choice((TOPIC, TOPIC, TOPIC, BROKER, BROKER, BROKER, CLIENT_METRICS, 0, 32))
        wrong = draw.random() < 0.35
        if kind == BROKER:
            name = draw.choice(("0", "0", "0", "", "", "1", "one"))
            return kind, name, dict(draw.choice(REFUSED_CONFIGS if wrong else BROKER_CONFIGS))
        while (name := self._name()) in UNPLACED:
            pass
        configs = dict(draw.choice(INVALID_CONFIGS if wrong else VALID_CONFIGS))
        if "compression.type" in configs:
            self._packed.add(name)
        return kind, name, configs

    def _resources(self) -> list[tuple[int, str, dict[str, str | None]]]:
        """Each once, and what has no settings alone: Kafka 3.9 never answers a request that names one twice."""
        found = [self._resource() for _ in range(self._draw.choice((1, 1, 1, 2, 3)))]
        odd = [each for each in found if each[0] not in (TOPIC, BROKER)]
        return odd[:1] or list({(kind, name): (kind, name, configs) for kind, name, configs in found}.values())

    def _alter(self) -> Step:
        validate_only = self._draw.random() < 0.3
        resources = [
            whole.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[whole.AlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
            for kind, name, configs in self._resources()
        ]
        request = whole.AlterConfigsRequest(resources=resources, validate_only=validate_only)
        return self._step(ApiKey.ALTER_CONFIGS, f"{resources} {validate_only=}", lambda _side, _version: request)

    def _alter_some(self) -> Step:
        validate_only = self._draw.random() < 0.3
        resources = []
        for kind, name, configs in self._resources():
            alterations = [
                incremental.AlterableConfig(
                    name=key, value=value, config_operation=SET if self._draw.random() < 0.8 else DELETE
                )
                for key, value in configs.items()
            ]
            if self._draw.random() < 0.3:
                alterations.append(self._listed(kind))
            if self._draw.random() < 0.05 and alterations:
                alterations.append(alterations[0])
            resources.append(
                incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=alterations)
            )

        def make(_side: Side, _version: int) -> Message:
            return incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)

        return self._step(ApiKey.INCREMENTAL_ALTER_CONFIGS, f"{resources} {validate_only=}", make)

    def _listed(self, kind: int) -> incremental.AlterableConfig:
        draw = self._draw
        names = ("log.cleanup.policy", "log.segment.bytes") if kind == BROKER else (*LISTS, "segment.bytes")
        name = draw.choice(names)
        value = draw.choice(("compact", "delete", "compact,delete") if "policy" in name else ("0:0", "1:0", "0:0,1:0"))
        return incremental.AlterableConfig(name=name, value=value, config_operation=draw.choice((APPEND, SUBTRACT)))
