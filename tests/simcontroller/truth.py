"""What was promised, and whether it holds after every step: every append, cut, high watermark and write to the registry.

    committed    what a leader had below its high watermark while enough were in sync: nobody may ever see it differently

    L2, L3   a replica has below its high watermark what is committed, at the same offsets, from the same epochs
    L6       the high watermark of a leader never goes back within its epoch
    L8, L9   whoever is in sync, by what is written in the registry, has everything that is committed
    L10      nothing is acknowledged that is not committed; nothing is committed while too few are in sync
    L18      what is acknowledged after something was sent lies behind everything acknowledged before

All that holds between two unclean elections (``eras``).

One whose power failed may be in sync without being whole, until the controller hears of it: it is *weak* for that time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr
from tests.simcontroller.disk import Kept, ModelLog
from tests.simcontroller.eras import Era, Eras, Place, is_unclean
from tests.simcontroller.node import MIN_INSYNC

if TYPE_CHECKING:
    from tests.simcontroller.clients import Led
    from tests.simcontroller.world import World


class BrokerWitness:
    """What one broker's logs tell."""

    def __init__(self, truth: Truth, broker: BrokerId) -> None:
        self._truth = truth
        self._broker = broker

    def changed(self, log: ModelLog) -> None:
        self._truth.changed(self._broker, log)

    def led(self, log: ModelLog, epoch: int) -> None:
        self._truth.led(self._broker, log, epoch)


class Truth:
    def __init__(self, world: World) -> None:
        self._world = world
        self.eras = Eras()
        self.weak: set[tuple[BrokerId, Place]] = set()
        self.seen: Counter[str] = Counter()
        """What happened, and how often: a history without faults proves nothing."""
        self._marks: dict[tuple[Place, int], int] = {}
        self._ends: dict[tuple[BrokerId, Place], int] = {}

    def of(self, broker: BrokerId) -> BrokerWitness:
        self.eras.forget(broker)
        return BrokerWitness(self, broker)

    # What happens.

    def changed(self, broker: BrokerId, log: ModelLog) -> None:
        assert log.topic_id is not None
        where, place = TopicPartition(*log.where), Place(log.topic_id.bytes, log.where.partition)
        self._count(broker, place, log)
        node = self._world.nodes.get(broker)
        partition = None if node is None else node.partition(where)
        if partition is None or id(partition.log) != id(log):
            era = self.eras.now(place)
            if era.is_first:
                self._check_below_mark(broker, log, era)
        else:
            era = self.eras.at(place, partition.leader_epoch)
            if partition.leadership is not None:
                epoch, mark = partition.leadership.epoch, log.high_watermark
                assert mark >= self._marks.get((place, epoch), 0), (
                    f"L6: {where}: the high watermark of {broker} went back"
                )
                self._marks[place, epoch] = mark
                if len(partition.isr) >= min(MIN_INSYNC, len(partition.replicas)):
                    self._commit(era, log)
            self._check_below_mark(broker, log, era)
        self._check_in_sync(where, place)

    def _check_below_mark(self, broker: BrokerId, log: ModelLog, era: Era) -> None:
        where, known, mark = log.where, era.committed, log.high_watermark
        if era.binds(broker, log.records[:mark]):
            assert mark <= len(known), f"L10: {where}: {broker} shows {mark}, and {len(known)} are committed"
            assert log.records[:mark] == known[:mark], f"L3: {where}: {broker} differs below its high watermark {mark}"

    def led(self, broker: BrokerId, log: ModelLog, epoch: int) -> None:
        """Whoever leads first after an unclean election says what there is."""
        assert log.topic_id is not None
        place = Place(log.topic_id.bytes, log.where.partition)
        era = self.eras.at(place, epoch)
        if not era.has_begun:
            era.begin(log.records)
            lost = self.eras.at(place, era.first_epoch - 1).committed
            self.seen["forgotten"] += era.committed[: len(lost)] != lost
            self.weak.discard((broker, place))

    def _commit(self, era: Era, log: ModelLog) -> None:
        known = era.committed
        both = min(len(known), log.high_watermark)
        assert log.records[:both] == known[:both], f"L2: {log.where}: another record is committed at the same offset"
        known += log.records[len(known) : log.high_watermark]

    def _count(self, broker: BrokerId, place: Place, log: ModelLog) -> None:
        before = self._ends.get((broker, place), 0)
        if log.log_end_offset < before:
            self.seen["cut"] += 1
        self._ends[broker, place] = log.log_end_offset

    def state_written(self, where: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
        place = self._world.ensemble.place(where)
        if place is None:
            return
        joined = set(state.isr) - set(() if before is None else before.isr)
        left = set(() if before is None else before.isr) - set(state.isr)
        # Whoever joins without being there had caught up before its power failed, and is found out when it is back.
        self.weak -= {(broker, place) for broker in joined & self._world.nodes.keys() | left}
        self.seen["joined"] += len(joined) if before is not None else 0
        self.seen["elected"] += before is not None and state.leader not in (-1, before.leader)
        if before is not None and is_unclean(before, state):
            self.seen["unclean"] += 1
            self.eras.end(place, state.leader_epoch)
        self._check_in_sync(where, place)

    def _check_in_sync(self, where: TopicPartition, place: Place) -> None:
        state = self._world.ensemble.states.get(where)
        if state is None or self._world.ensemble.place(where) != place or self._world.ensemble.is_deleted(where.topic):
            return
        known = self.eras.at(place, state.leader_epoch).committed
        for broker in state.isr:
            if (broker, place) not in self.weak:
                held = self._world.records(broker, where, place)
                assert held[: len(known)] == known, (
                    f"L9: {where}: {broker} is in sync ({state}) with {len(held)} records of {len(known)} committed"
                )

    # What clients are told.

    def acked_before(self, place: Place) -> dict[Era, int]:
        return {era: era.acked for era in self.eras.since(place)}

    def acknowledged(self, led: Led, offset: int, value: int, *, sent_behind: Mapping[Era, int]) -> None:
        """Whoever led by then: an answer does not say in which epoch that was."""
        self.seen["acknowledged"] += 1
        eras = self.eras.since(led.place, led.epoch)
        era = next(
            (each for each in eras if value in (kept.value for kept in each.committed[offset : offset + 1])), eras[-1]
        )
        known, behind = era.committed, sent_behind.get(era, -1)
        assert offset < len(known), f"L10: {offset} was acknowledged, and {len(known)} are committed"
        assert known[offset].value == value, f"L1: {value} was acknowledged at {offset}, where {known[offset]} is"
        assert offset > behind, f"L18: {value} is at {offset}, and {behind} was acknowledged before"
        era.acked = max(era.acked, offset)

    def read(self, era: Era, offset: int, record: Kept) -> None:
        self.seen["read"] += 1
        known = era.committed
        assert offset < len(known), f"L7: {offset} was read, and {len(known)} are committed"
        assert known[offset] == record, f"L2: {record} was read at {offset}, where {known[offset]} is"

    # What is left.

    def committed(self, where: TopicPartition, place: Place) -> list[Kept]:
        """In the era that the registry tells of."""
        state = self._world.ensemble.states.get(where)
        is_this = state is not None and self._world.ensemble.place(where) == place
        return self.eras.at(place, state.leader_epoch).committed if state is not None and is_this else []

    # What a power cut may take.

    def spared(self, broker: BrokerId, where: TopicPartition, log: ModelLog, kept: int) -> int:
        """How many records a power cut leaves of those that ``kept`` would, if nobody else in sync had the committed ones."""
        assert log.topic_id is not None
        place = Place(log.topic_id.bytes, where.partition)
        state = self._world.ensemble.states.get(where)
        known = self.committed(where, place)
        others = () if state is None or self._world.ensemble.place(where) != place else state.isr
        if others and self._world.ensemble.assignment(where.topic).partitions[where.partition].is_being_reassigned:
            return log.log_end_offset
        for other in others:
            if other != broker and self._world.records(other, where, place)[: len(known)] == known:
                break
        else:
            kept = max(kept, min(len(known), log.log_end_offset))
        if kept < log.log_end_offset:
            self.weak.add((broker, place))  # also one that is not in sync: it may be about to join
            self.seen["lost"] += len(others) > 1
        return kept

    def is_settled(self) -> bool:
        """Nobody is in sync who lost something and was not found out."""
        ensemble = self._world.ensemble
        return not any(
            broker in state.isr and (broker, ensemble.place(where)) in self.weak
            for where, state in ensemble.states.items()
            for broker in state.isr
        )
