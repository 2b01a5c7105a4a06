"""Metadata, settings and versions asked for."""

from __future__ import annotations

from typing import Final

from ottla.wire import ApiKey, Message
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.k18_api_versions import ApiVersionsRequest
from ottla.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.k60_describe_cluster import DescribeClusterRequest
from tests.compat.brokerpair import Side, Step
from tests.compat.requests.drawing import COLLIDED, COLLIDING, NAMES, Drawing

_METADATA_BY_ID: Final = 12


class Asking(Drawing):
    def _metadata(self) -> Step:
        draw = self._draw
        names = None if draw.random() < 0.15 else [self._name() for _ in range(draw.choice((0, 1, 2, 4)))]
        if names is not None and COLLIDING in names:
            names = [name for name in names if name != COLLIDED]
        by_id, create = draw.random() < 0.3, draw.random() < 0.5
        cluster, topic = draw.random() < 0.2, draw.random() < 0.2
        if create:
            for name in names or ():
                if name in NAMES:
                    self._partitions.setdefault(name, 1)

        def make(side: Side, version: int) -> Message:
            wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
            if wanted is None and version == 0:
                wanted = []
            if by_id and version >= _METADATA_BY_ID and wanted is not None:
                ids = [side.topic_id(name) for name in names or ()]
                wanted = [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
            return MetadataRequest(
                topics=wanted,
                allow_auto_topic_creation=create or version < 4,
                include_cluster_authorized_operations=cluster and 8 <= version <= 10,
                include_topic_authorized_operations=topic and version >= 8,
            )

        return self._step(
            ApiKey.METADATA, f"{names} {by_id=} {create=}", make, least=0 if names is None or names else 1
        )

    def _configs(self) -> Step:
        draw = self._draw
        resources = []
        for _ in range(draw.choice((1, 1, 2, 3))):
            kind = draw.choice((2, 2, 2, 4, 4, 8, 16, 0, 32) if draw.random() < 0.2 else (2, 2, 4))
            name = self._name() if kind == 2 else draw.choice(("0", "0", "", "1", "one"))
            keys = draw.choice((None, None, [], ["retention.ms", "log.retention.ms"], ["cleanup.policy", "nothing"]))
            if kind == 8:
                keys = ["no.such.logger"]
            resources.append(DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys))
        synonyms, documentation = draw.random() < 0.6, draw.random() < 0.3

        def make(_side: Side, version: int) -> Message:
            return DescribeConfigsRequest(
                resources=resources,
                include_synonyms=synonyms,
                include_documentation=documentation and version >= 3,
            )

        return self._step(ApiKey.DESCRIBE_CONFIGS, f"{resources} {synonyms=} {documentation=}", make)

    def _cluster(self) -> Step:
        operations, kind = self._draw.random() < 0.5, self._draw.choice((1, 1, 1, 2, 9))

        def make(_side: Side, version: int) -> Message:
            kind_told = kind if version >= 1 else 1
            return DescribeClusterRequest(include_cluster_authorized_operations=operations, endpoint_type=kind_told)

        return self._step(ApiKey.DESCRIBE_CLUSTER, f"{operations=} {kind=}", make)

    def _versions_named(self) -> tuple[str, str]:
        good = ("apache-kafka-java", "3.9.1"), ("a", "1"), ("kcat.x-y", "v1.2-rc.1")
        bad = ("", "1"), ("-a", "1"), ("a", ""), ("a b", "1"), ("a", "1.")
        return self._draw.choice(good if self._draw.random() < 0.7 else bad)

    def _offers(self) -> Step:
        name, version_told = self._versions_named()

        def make(_side: Side, version: int) -> Message:
            if version < 3:
                return ApiVersionsRequest()
            return ApiVersionsRequest(client_software_name=name, client_software_version=version_told)

        return self._step(ApiKey.API_VERSIONS, f"{name!r} {version_told!r}", make)
