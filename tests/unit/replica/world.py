"""Three brokers with replicas of one partition and a controller, under a seed: orders, fetches and answers late, brokers killed.

Everything that decides is the product's (``Partition`` over real logs); what is between is a queue from which the seed draws.
Checked after every step:

    complete   whoever the controller has in sync has every record that was acknowledged, at its offset (L1, L9, L11)
    one value  no two brokers that are in sync differ below the high watermark (L2, L3)
    monotone   the high watermark of a leader never goes back within its epoch (L6)
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random

from ottla.metadata import BrokerId
from ottla.records import frames, read_batch
from ottla.replica.errors import ReplicaError
from tests.unit.replica.pairs import Broker, fetch

NUMBERS = (1, 2, 3)
LAG_S = 5.0
STEPS = 150


class World:
    def __init__(self, folder: Path, seed: int) -> None:
        self._draw = Random(seed)
        self.brokers = {number: Broker(folder, number) for number in NUMBERS}
        self.alive = set(NUMBERS)
        self.leader, self.epoch, self.version = 1, 0, 0
        self.isr: tuple[int, ...] = NUMBERS
        self.acked: dict[int, bytes] = {}
        self._orders: dict[int, deque[tuple[int, int, tuple[int, ...], int]]] = {n: deque() for n in NUMBERS}
        self._answers: deque[tuple[int, int, tuple[int, ...], int]] = deque()
        self._written: dict[int, tuple[int, bytes]] = {}
        self._marks: dict[tuple[int, int], int] = {}
        self._now_s = 0.0
        self._count = 0
        self._order()

    def run(self) -> None:
        try:
            for _ in range(STEPS):
                self._step()
                self._check()
            self._heal()
            self._check()
        finally:
            for broker in self.brokers.values():
                broker.close()

    def _step(self) -> None:
        deeds = (
            (self._append, 4),
            (self._fetch, 12),
            (self._obey, 4),
            (self._decide, 3),
            (self._answer, 3),
            (self._pass_time, 1),
            (self._move, 0.5),
            (self._kill, 0.5),
            (self._revive, 0.7),
        )
        (deed,) = self._draw.choices([deed for deed, _ in deeds], [weight for _, weight in deeds])
        deed()

    # What happens.

    def _append(self) -> None:
        broker = self.brokers[self._draw.choice(sorted(self.alive))]
        self._count += 1
        value = f"{self._count}"
        try:
            broker.append(value)
        except ReplicaError:
            return
        self._written[self._count] = (broker.end - 1, value.encode())

    def _fetch(self) -> None:
        number = self._draw.choice(sorted(self.alive))
        follower = self.brokers[number]
        try:
            leader = follower.partition.leader
            if leader in self.alive and leader != number and not follower.partition.is_stopped:
                # One batch at a time, so that there is something in between.
                fetch(follower, self.brokers[leader], now_s=self._now_s, max_bytes=1)
        except ReplicaError:
            return  # one of the two has yet to hear from the controller

    def _obey(self) -> None:
        number = self._draw.choice(sorted(self.alive))
        if self._orders[number]:
            leader, epoch, isr, version = self._orders[number].popleft()
            try:
                self.brokers[number].order(leader, epoch, isr, NUMBERS, version=version)
            except ReplicaError:
                return

    def _decide(self) -> None:
        """The controller judges a proposal; the answer may take its time, or be lost with the leader."""
        proposals = [(n, self.brokers[n].proposals) for n in sorted(self.alive) if self.brokers[n].proposals]
        if not proposals:
            return
        number, waiting = self._draw.choice(proposals)
        proposal = waiting.pop(0)
        members = tuple(int(member) for member, _ in proposal.isr)
        if (number, proposal.leader_epoch, proposal.partition_epoch) != (self.leader, self.epoch, self.version):
            return  # superseded: an order is on its way
        if not set(members) <= self.alive:
            self.brokers[number].partition.isr_refused(proposal.leader_epoch)
            self.brokers[number].partition.isr_open_again(proposal.leader_epoch)
            return
        self.isr, self.version = members, self.version + 1
        self._answers.append((number, self.epoch, self.isr, self.version))

    def _answer(self) -> None:
        if self._answers:
            number, epoch, isr, version = self._answers.popleft()
            if number in self.alive & self._ready():
                partition = self.brokers[number].partition
                partition.isr_confirmed(epoch, tuple(map(BrokerId, isr)), partition_epoch=version)

    def _pass_time(self) -> None:
        self._now_s += self._draw.random() * LAG_S
        for number in sorted(self.alive & self._ready()):
            self.brokers[number].partition.check_lag(now_s=self._now_s, lag_s=LAG_S)

    def _kill(self) -> None:
        number = self._draw.choice(NUMBERS)
        if number not in self.alive or len(self.alive) == 1:
            return
        self.alive.discard(number)
        self._orders[number].clear()
        self.brokers[number].proposals.clear()
        self.brokers[number].crash()
        rest = tuple(member for member in self.isr if member != number)
        if number in self.isr and rest:
            self.isr = rest
        candidates = [member for member in self.isr if member in self.alive]
        if self.leader in (number, -1):
            self.leader = self._draw.choice(candidates) if candidates else -1
        self._order()

    def _move(self) -> None:
        """Somebody else in sync leads, though nobody died: the old leader hears of it in his own time."""
        if self.leader != -1:
            self.leader = self._draw.choice([member for member in self.isr if member in self.alive])
            self._order()

    def _revive(self) -> None:
        gone = [number for number in NUMBERS if number not in self.alive]
        if gone:
            number = self._draw.choice(gone)
            self.alive.add(number)
            self.brokers[number].broker_epoch += 1
            if self.leader == -1 and number in self.isr:
                self.leader = number
            self._order()

    def _order(self) -> None:
        """Another epoch, of which everybody alive is told in his own time."""
        self.epoch, self.version = self.epoch + 1, self.version + 1
        for number in self.alive:
            self._orders[number].append((self.leader, self.epoch, self.isr, self.version))

    def _heal(self) -> None:
        """Everybody comes back and hears everything; then all logs have to become alike."""
        while len(self.alive) < len(NUMBERS):
            self._revive()
        for _ in range(60):
            for number in NUMBERS:
                while self._orders[number]:
                    leader, epoch, isr, version = self._orders[number].popleft()
                    self.brokers[number].order(leader, epoch, isr, NUMBERS, version=version)
            for number in NUMBERS:
                if number != self.leader:
                    fetch(self.brokers[number], self.brokers[self.leader], now_s=self._now_s)
            self._decide()
            self._answer()
        logs = {number: self.brokers[number].bytes() for number in NUMBERS}
        assert len(set(logs.values())) == 1, "logs differ in the end"
        assert set(self.isr) == set(NUMBERS), "somebody is not in sync in the end"

    # What must hold.

    def _ready(self) -> set[int]:
        return {number for number in NUMBERS if ("t", 0) in self.brokers[number].replicas}

    def _check(self) -> None:
        values = {number: self._values(number) for number in NUMBERS}
        for number in self._ready() & self.alive:
            broker = self.brokers[number]
            if broker.partition.is_leader:
                mark, key = broker.high_watermark, (number, broker.partition.leader_epoch)
                assert mark >= self._marks.get(key, 0), "the high watermark of a leader went back"
                self._marks[key] = mark
                for count, (offset, value) in list(self._written.items()):
                    if offset < mark and values[number].get(offset) == value:
                        self.acked[offset] = value
                        del self._written[count]
        for number in self.isr:
            for offset, value in self.acked.items():
                found = values[number].get(offset)
                assert found == value, f"broker {number} is in sync and has {found!r} at {offset}, not {value!r}"

    def _values(self, number: int) -> dict[int, bytes]:
        data = self.brokers[number].bytes()
        return {
            record.offset: record.value or b"" for frame in frames(data) for record in read_batch(data, frame.position)
        }
