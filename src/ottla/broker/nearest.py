"""Which replica a consumer had better read from (KIP-392): one in its own rack, where the brokers are told to care.

As with Kafka's RackAwareReplicaSelector: the leader if it is in that rack itself, or if nobody is; else the replica in sync
that has come furthest, among those that have the offset that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.metadata.ids import BrokerId
from ottla.metadata.image import Image
from ottla.replica.leadership import Follower, Leadership


def nearest_replica(
    leadership: Leadership, image: Image, *, leader: BrokerId, listener: str, rack: str, offset: int
) -> int | None:
    """The broker to go to; None if that is the leader."""
    if _rack_of(image, leader, listener) == rack:
        return None
    near: Mapping[int, Follower] = {
        replica: follower
        for replica, follower in leadership.followers.items()
        if replica in leadership.committed
        and _rack_of(image, BrokerId(replica), listener) == rack
        and follower.log_start_offset <= offset <= follower.log_end_offset
    }
    return max(near, key=lambda replica: (near[replica].log_end_offset, -replica), default=None)


def _rack_of(image: Image, broker_id: BrokerId, listener: str) -> str | None:
    """None, too, for a broker that cannot be reached the way the consumer came."""
    if image.endpoint(broker_id, listener) is None:
        return None
    return image.brokers[broker_id].registration.rack
