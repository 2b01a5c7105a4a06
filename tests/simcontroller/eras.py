"""What is committed of a partition, from one unclean election to the next.

An unclean election ends an era: what its leader does not have is lost, and what it has is all that there is to keep. A leader that
was replaced without knowing it may go on committing in the era that was its own, with others that do not know it either. So
every era has a history of its own, and whoever says something says it in some epoch, which belongs to one era.

An era begins to mean something when its first leader leads: until it is told so, it may still follow the one before, and what it
has changes. Other replicas hold what is left of an earlier era until they have cut it off. From the moment that a log agrees
with what is committed it has to go on doing so, as long as its broker lives: a checkpoint of the high watermark may be from
an earlier era than what is below it.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.metadata.ids import NO_LEADER, BrokerId
from ottla.metadata.znodes.topics import LeaderAndIsr
from tests.simcontroller.disk import Kept

_ANY_EPOCH = -1


class Place(NamedTuple):
    """A partition of one topic: another one of the same name is another."""

    topic_id: bytes
    partition: int


class Era:
    """See the module. The first one begins with nothing."""

    def __init__(self, first_epoch: int = _ANY_EPOCH) -> None:
        self.first_epoch = first_epoch
        self.committed: list[Kept] = []
        self.acked = -1
        """The last offset that was acknowledged."""
        self.has_begun = self.is_first
        self._agreeing: set[BrokerId] = set()

    @property
    def is_first(self) -> bool:
        """Nothing of an earlier one is left anywhere."""
        return self.first_epoch == _ANY_EPOCH

    def begin(self, records: list[Kept]) -> None:
        """Its first leader leads."""
        self.has_begun = True
        self.committed = list(records)

    def binds(self, broker: BrokerId, shown: list[Kept]) -> bool:
        """Whether a broker has to agree with it, which shows so many records."""
        if self.has_begun and shown == self.committed[: len(shown)]:
            self._agreeing.add(broker)
        return self.is_first or broker in self._agreeing

    def forget(self, broker: BrokerId) -> None:
        self._agreeing.discard(broker)


class Eras:
    """Of all partitions."""

    def __init__(self) -> None:
        self._eras: dict[Place, list[Era]] = {}

    def end(self, place: Place, epoch: int) -> None:
        """A leader was elected uncleanly, in this epoch."""
        self._of(place).append(Era(epoch))

    def now(self, place: Place) -> Era:
        return self._of(place)[-1]

    def at(self, place: Place, epoch: int) -> Era:
        return next(era for era in reversed(self._of(place)) if era.first_epoch <= epoch)

    def since(self, place: Place, epoch: int = _ANY_EPOCH) -> list[Era]:
        """The one of this epoch, and all later ones."""
        first = self.at(place, epoch)
        return [era for era in self._of(place) if era.first_epoch >= first.first_epoch]

    def forget(self, broker: BrokerId) -> None:
        """Its next life begins."""
        for eras in self._eras.values():
            for era in eras:
                era.forget(broker)

    def _of(self, place: Place) -> list[Era]:
        return self._eras.setdefault(place, [Era()])


def is_unclean(before: LeaderAndIsr, state: LeaderAndIsr) -> bool:
    """The leader was not in sync, or it was and has crashed since: only such an election makes a leader recover."""
    if state.leader == NO_LEADER:
        return False
    return state.leader not in before.isr or (state.recovering and not before.recovering)
