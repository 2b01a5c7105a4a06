"""Which replicas of this broker are throttled, and how much (``replica.throttle``).

    leader.replication.throttled.replicas       of a topic: partition:broker, or * for all; what the leader sends to them
    follower.replication.throttled.replicas     likewise; what they fetch
    leader.replication.throttled.rate           of a broker, for all it leads
    follower.replication.throttled.rate         of a broker, for all it follows
    replica.alter.log.dirs.io.max.bytes.per.second     of a broker, for all moves between its directories

The broker that is named beside a partition is the one that obeys: of the first list the leader, of the second the follower.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ottla.base.clock import Clock
from ottla.broker.config import BrokerConfig
from ottla.replica.partition import Partition
from ottla.replica.throttle import Throttle

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
_ALL: Final = "*"


class Throttling:
    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        samples, window_ms = config.replication_windows()
        moves_samples, moves_window_ms = config.log_dirs_windows()
        self.leader = Throttle(clock, config.leader_throttled_rate, samples=samples, window_ms=window_ms)
        self.follower = Throttle(clock, config.follower_throttled_rate, samples=samples, window_ms=window_ms)
        self.moves = Throttle(clock, config.log_dirs_throttled_rate, samples=moves_samples, window_ms=moves_window_ms)

    def renew(self) -> None:
        """The rates may be others."""
        self.leader.rate = self._config.leader_throttled_rate
        self.follower.rate = self._config.follower_throttled_rate
        self.moves.rate = self._config.log_dirs_throttled_rate

    def apply(self, partition: Partition, topic_config: Mapping[str, str]) -> None:
        """The partition is new here, or its topic has other settings."""
        broker_id, index = self._config.broker_id, partition.where.partition
        leads = is_throttled(topic_config.get(LEADER_REPLICAS, ""), broker_id, index)
        follows = is_throttled(topic_config.get(FOLLOWER_REPLICAS, ""), broker_id, index)
        partition.leader_throttle = self.leader if leads else None
        partition.follower_throttle = self.follower if follows else None


def is_throttled(replicas: str, broker_id: int, partition: int) -> bool:
    found = _partitions(replicas, broker_id)
    return found is None or partition in found


@lru_cache(maxsize=64)
def _partitions(replicas: str, broker_id: int) -> frozenset[int] | None:
    """None for all of them. What is no pair of numbers names nobody: it was not written by a broker."""
    if replicas.strip() == _ALL:
        return None
    found = set()
    for pair in replicas.split(","):
        partition, _, broker = pair.strip().partition(":")
        if partition.isdecimal() and broker.isdecimal() and int(broker) == broker_id:
            found.add(int(partition))
    return frozenset(found)
