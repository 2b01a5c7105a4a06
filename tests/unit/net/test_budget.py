"""What unfinished frames hold together is bounded, and whoever can finish does."""

from __future__ import annotations

import asyncio

from ottla.net.budget import FrameBudget

MB = 1 << 20


class Peer:
    """A connection, as a budget sees it; ``reads`` is what the budget lets it do."""

    def __init__(self, budget: FrameBudget, size: int) -> None:
        self.budget = budget
        self.size = size
        self.held = 0
        self.reads = True
        self.gone = ""
        self.waits_for_room_only = True

    def send(self, count: int) -> None:
        assert self.reads, "nobody reads from it"
        self.held += count
        if self.held >= self.size:
            self.held = 0
            self.budget.release(self)
        else:
            self.budget.hold(self, held=self.held, missing=self.size - self.held)

    def pause_for_room(self) -> None:
        self.reads = False

    def resume_for_room(self) -> None:
        self.reads = True

    def cut(self, why: str) -> None:
        self.gone = why
        self.budget.release(self)


def test_below_the_limit_everybody_reads() -> None:
    async def scenario() -> None:
        budget = FrameBudget(64 * MB)
        peers = [Peer(budget, 2 * MB) for _ in range(60)]
        for peer in peers:
            peer.send(MB)
        assert all(peer.reads for peer in peers)
        assert budget.total == 60 * MB

    asyncio.run(scenario())


def test_giants_that_fall_silent_hold_no_more_than_the_budget_and_one_of_them() -> None:
    async def scenario() -> None:
        budget = FrameBudget(64 * MB)
        giants = [Peer(budget, 90 * MB) for _ in range(64)]
        for _ in range(89):
            for giant in giants:
                if giant.reads and not giant.gone:
                    giant.send(MB)
        assert budget.total <= (64 + 90) * MB
        assert sum(giant.reads for giant in giants) == 1
        # A client with an ordinary frame gets through all the same, and a small one never comes here.
        ordinary = Peer(budget, 4 * MB)
        for _ in range(4):
            ordinary.send(MB)
        assert ordinary.held == 0
        assert not ordinary.gone

    asyncio.run(scenario())


def test_who_goes_on_without_finishing_is_cut_and_the_others_go_on() -> None:
    async def scenario() -> None:
        budget = FrameBudget(8 * MB, turn_s=0.05)
        peers = [Peer(budget, 90 * MB) for _ in range(9)]
        for peer in peers:
            peer.send(MB)
        assert sum(peer.reads for peer in peers) == 1
        while budget.total > 8 * MB:  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0.01)
        assert [peer.gone != "" for peer in peers].count(True) == 1
        assert all(peer.reads for peer in peers if not peer.gone)

    asyncio.run(scenario())


def test_who_is_not_read_for_other_reasons_is_not_cut() -> None:
    async def scenario() -> None:
        budget = FrameBudget(2 * MB, turn_s=0.01)
        first, second = Peer(budget, 90 * MB), Peer(budget, 91 * MB)
        first.waits_for_room_only = False
        first.send(MB)
        second.send(2 * MB)
        await asyncio.sleep(0.1)
        assert not first.gone
        first.waits_for_room_only = True
        while not first.gone:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_when_those_who_wait_hold_too_much_the_largest_is_cut() -> None:
    async def scenario() -> None:
        budget = FrameBudget(4 * MB)
        peers = [Peer(budget, (10 + number) * MB) for number in range(20)]
        for peer in peers:
            if peer.reads:
                peer.send(MB)
        assert budget.total <= 9 * MB
        assert not peers[0].gone
        assert peers[-1].gone

    asyncio.run(scenario())
