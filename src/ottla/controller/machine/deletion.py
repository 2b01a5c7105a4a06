"""A topic on its way out: every replica is told to go, and when the last one has gone, so do the znodes.

A move that is under way ends there and then: both the old replicas and the new ones go. A replica whose broker is away, or whose disk failed, holds the deletion up until it is back. Nothing of this is written down
but the wish itself: a new controller asks all replicas again, and one that has gone already says so.
"""

from __future__ import annotations

from ottla.controller.machine.situation import Replica, Situation
from ottla.metadata.image import Topic


class Deletion:
    """See the module."""

    def __init__(self, topic: Topic) -> None:
        self.name = topic.name
        self.left = {
            Replica(where, broker) for where, assignment, _ in topic.leaders() for broker in assignment.replicas
        }
        self._asked: dict[Replica, int] = {}
        """In which life of its broker."""

    @property
    def is_done(self) -> bool:
        return not self.left

    def ask(self, situation: Situation) -> list[Replica]:
        """The replicas to be told now: those that can hear it and have not been told in this life of their broker."""
        found = [
            replica
            for replica in sorted(self.left)
            if situation.has_disk(replica.broker_id, replica.where)
            and self._asked.get(replica) != situation.image.broker_epoch(replica.broker_id)
        ]
        for replica in found:
            epoch = situation.image.broker_epoch(replica.broker_id)
            assert epoch is not None, replica
            self._asked[replica] = epoch
        return found

    def gone(self, replica: Replica) -> None:
        """It is deleted, or was never there."""
        self.left.discard(replica)

    def is_held_up(self, situation: Situation) -> bool:
        """It cannot end before a broker comes back."""
        return any(not situation.has_disk(replica.broker_id, replica.where) for replica in self.left)
