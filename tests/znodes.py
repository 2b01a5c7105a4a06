"""Reads any znode with our decoder and writes it again, so that a whole tree can be held to its bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.znodes import brokers, cluster, configs, orders, paths, security, topics

Again = Callable[[re.Match[str], bytes], bytes]


def _acls(resource: security.ResourcePattern, data: bytes) -> bytes:
    return security.encode_acls(security.decode_acls(resource, data))


def _resource(match: re.Match[str], *, prefixed: bool) -> security.ResourcePattern:
    kind = next(name for name, spelled in security.RESOURCE_TYPES.items() if spelled == match[1])
    return security.ResourcePattern(kind, match[2], prefixed=prefixed)


_CODECS: Final[dict[str, Again]] = {
    r"/brokers/ids/(\d+)": lambda at, data: brokers.encode_broker(brokers.decode_broker(BrokerId(int(at[1])), data)),
    r"/brokers/topics/([^/]+)": lambda at, data: topics.encode_topic(topics.decode_topic(at[1], data)),
    r"/brokers/topics/([^/]+)/partitions/(\d+)/state": lambda at, data: topics.encode_state(
        topics.decode_state(TopicPartition(at[1], int(at[2])), data, partition_epoch=0)
    ),
    r"/controller": lambda _, data: cluster.encode_controller(cluster.decode_controller(data)),
    r"/controller_epoch": lambda _, data: cluster.encode_controller_epoch(cluster.decode_controller_epoch(data)),
    r"/cluster/id": lambda _, data: cluster.encode_cluster_id(cluster.decode_cluster_id(data)),
    r"/feature": lambda _, data: cluster.encode_features(cluster.decode_features(data)),
    r"/latest_producer_id_block": lambda _, data: cluster.encode_producer_ids(cluster.decode_producer_ids(data)),
    r"/config/changes/config_change_\d{10}": lambda at, data: configs.encode_config_change(
        configs.decode_config_change(at[0], data)
    ),
    r"/config/((?!changes/).+/.+)": lambda at, data: configs.encode_config(
        configs.decode_config(configs.parse_entity_path(at[1]), data)
    ),
    r"/admin/preferred_replica_election": lambda _, data: orders.encode_partitions(
        orders.decode_partitions(paths.PREFERRED_REPLICA_ELECTION, data)
    ),
    r"/admin/reassign_partitions": lambda _, data: orders.encode_reassignment(orders.decode_reassignment(data)),
    r"/isr_change_notification/isr_change_\d{10}": lambda at, data: orders.encode_partitions(
        orders.decode_partitions(at[0], data)
    ),
    r"/log_dir_event_notification/log_dir_event_\d{10}": lambda at, data: orders.encode_log_dir_event(
        orders.decode_log_dir_event(at[0], data)
    ),
    r"/kafka-acl/(\w+)/(.+)": lambda at, data: _acls(_resource(at, prefixed=False), data),
    r"/kafka-acl-extended/prefixed/(\w+)/(.+)": lambda at, data: _acls(_resource(at, prefixed=True), data),
    r"/kafka-acl(?:-extended)?-changes/acl_changes_\d{10}": lambda at, data: security.encode_acl_change(
        security.decode_acl_change(at[0], data)
    ),
    r"/delegation_token/tokens/(.+)": lambda at, data: security.encode_token(security.decode_token(at[1], data)),
}


def again(path: str, data: bytes) -> bytes:
    """The bytes of the znode at ``path`` after our decoder and our encoder."""
    for pattern, codec in _CODECS.items():
        if match := re.fullmatch(pattern, path):
            return codec(match, data)
    raise LookupError(f"{path}: no codec for {data!r}")
