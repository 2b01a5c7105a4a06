"""Made from the message table by scripts/wire_messages.py; edit neither."""

from __future__ import annotations

from ottla.wire.message import EMPTY, ZERO_UUID, Message


class LeaderAndIsrRequest(Message):
    """API key 4, versions 0 to 7."""

    __slots__ = (
        "controller_id",
        "is_kraft_controller",
        "controller_epoch",
        "broker_epoch",
        "type",
        "ungrouped_partition_states",
        "topic_states",
        "live_leaders",
    )

    def __init__(
        self,
        *,
        controller_id: int = 0,
        is_kraft_controller: bool = False,
        controller_epoch: int = 0,
        broker_epoch: int = -1,
        type: int = 0,
        ungrouped_partition_states: list[LeaderAndIsrPartitionState] = EMPTY,
        topic_states: list[LeaderAndIsrTopicState] = EMPTY,
        live_leaders: list[LeaderAndIsrLiveLeader] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.is_kraft_controller = is_kraft_controller
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.type = type
        self.ungrouped_partition_states = [] if ungrouped_partition_states is EMPTY else ungrouped_partition_states
        self.topic_states = [] if topic_states is EMPTY else topic_states
        self.live_leaders = [] if live_leaders is EMPTY else live_leaders


class LeaderAndIsrPartitionState(Message):
    __slots__ = (
        "topic_name",
        "partition_index",
        "controller_epoch",
        "leader",
        "leader_epoch",
        "isr",
        "partition_epoch",
        "replicas",
        "adding_replicas",
        "removing_replicas",
        "is_new",
        "leader_recovery_state",
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
        partition_epoch: int = 0,
        replicas: list[int] = EMPTY,
        adding_replicas: list[int] = EMPTY,
        removing_replicas: list[int] = EMPTY,
        is_new: bool = False,
        leader_recovery_state: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.controller_epoch = controller_epoch
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.isr = [] if isr is EMPTY else isr
        self.partition_epoch = partition_epoch
        self.replicas = [] if replicas is EMPTY else replicas
        self.adding_replicas = [] if adding_replicas is EMPTY else adding_replicas
        self.removing_replicas = [] if removing_replicas is EMPTY else removing_replicas
        self.is_new = is_new
        self.leader_recovery_state = leader_recovery_state


class LeaderAndIsrTopicState(Message):
    __slots__ = ("topic_name", "topic_id", "partition_states")

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_states: list[LeaderAndIsrPartitionState] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partition_states = [] if partition_states is EMPTY else partition_states


class LeaderAndIsrLiveLeader(Message):
    __slots__ = ("broker_id", "host_name", "port")

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host_name: str = "",
        port: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.host_name = host_name
        self.port = port


class LeaderAndIsrResponse(Message):
    """API key 4, versions 0 to 7."""

    __slots__ = ("error_code", "partition_errors", "topics")

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_errors: list[LeaderAndIsrPartitionError] = EMPTY,
        topics: list[LeaderAndIsrTopicError] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.partition_errors = [] if partition_errors is EMPTY else partition_errors
        self.topics = [] if topics is EMPTY else topics


class LeaderAndIsrPartitionError(Message):
    __slots__ = ("topic_name", "partition_index", "error_code")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.error_code = error_code


class LeaderAndIsrTopicError(Message):
    __slots__ = ("topic_id", "partition_errors")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partition_errors: list[LeaderAndIsrPartitionError] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partition_errors = [] if partition_errors is EMPTY else partition_errors
