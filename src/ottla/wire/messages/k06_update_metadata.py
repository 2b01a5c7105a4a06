"""Made from the message table by scripts/wire_messages.py; edit neither."""

from __future__ import annotations

from ottla.wire.message import EMPTY, ZERO_UUID, Message


class UpdateMetadataRequest(Message):
    """API key 6, versions 0 to 8."""

    __slots__ = (
        "controller_id",
        "is_kraft_controller",
        "type",
        "controller_epoch",
        "broker_epoch",
        "ungrouped_partition_states",
        "topic_states",
        "live_brokers",
    )

    def __init__(
        self,
        *,
        controller_id: int = 0,
        is_kraft_controller: bool = False,
        type: int = 0,
        controller_epoch: int = 0,
        broker_epoch: int = -1,
        ungrouped_partition_states: list[UpdateMetadataPartitionState] = EMPTY,
        topic_states: list[UpdateMetadataTopicState] = EMPTY,
        live_brokers: list[UpdateMetadataBroker] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.is_kraft_controller = is_kraft_controller
        self.type = type
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.ungrouped_partition_states = [] if ungrouped_partition_states is EMPTY else ungrouped_partition_states
        self.topic_states = [] if topic_states is EMPTY else topic_states
        self.live_brokers = [] if live_brokers is EMPTY else live_brokers


class UpdateMetadataPartitionState(Message):
    __slots__ = (
        "topic_name",
        "partition_index",
        "controller_epoch",
        "leader",
        "leader_epoch",
        "isr",
        "zk_version",
        "replicas",
        "offline_replicas",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
        controller_epoch: int = 0,
        leader: int = 0,
        leader_epoch: int = 0,
        isr: list[int] = EMPTY,
        zk_version: int = 0,
        replicas: list[int] = EMPTY,
        offline_replicas: list[int] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.controller_epoch = controller_epoch
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.isr = [] if isr is EMPTY else isr
        self.zk_version = zk_version
        self.replicas = [] if replicas is EMPTY else replicas
        self.offline_replicas = [] if offline_replicas is EMPTY else offline_replicas


class UpdateMetadataTopicState(Message):
    __slots__ = ("topic_name", "topic_id", "partition_states")

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_states: list[UpdateMetadataPartitionState] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partition_states = [] if partition_states is EMPTY else partition_states


class UpdateMetadataBroker(Message):
    __slots__ = ("id", "v0_host", "v0_port", "endpoints", "rack")

    def __init__(
        self,
        *,
        id: int = 0,
        v0_host: str = "",
        v0_port: int = 0,
        endpoints: list[UpdateMetadataEndpoint] = EMPTY,
        rack: str | None = "",
    ) -> None:
        self.id = id
        self.v0_host = v0_host
        self.v0_port = v0_port
        self.endpoints = [] if endpoints is EMPTY else endpoints
        self.rack = rack


class UpdateMetadataEndpoint(Message):
    __slots__ = ("port", "host", "listener", "security_protocol")

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "",
        listener: str = "",
        security_protocol: int = 0,
    ) -> None:
        self.port = port
        self.host = host
        self.listener = listener
        self.security_protocol = security_protocol


class UpdateMetadataResponse(Message):
    """API key 6, versions 0 to 8."""

    __slots__ = ("error_code",)

    def __init__(
        self,
        *,
        error_code: int = 0,
    ) -> None:
        self.error_code = error_code
