"""The recent entries against a list that forgets nothing."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.base.errors import RemoteProtocolError
from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.history import Recent, epoch_of, first_of


class RecentMachine(RuleBasedStateMachine):
    """``Recent`` next to the whole history it is the end of."""

    @initialize(base=st.sampled_from([0, first_of(1), first_of(3) + 7]), count_max=st.integers(1, 6))
    def start(self, base: int, count_max: int) -> None:
        self.recent = Recent(base, count_max=count_max, bytes_max=60)
        self.count_max = count_max
        self.history = [base]
        """The zxid the history starts from, and all entries behind it."""

    @property
    def last(self) -> int:
        return self.history[-1]

    @rule(count=st.integers(1, 5), new_epoch=st.booleans(), size=st.integers(0, 20))
    def append(self, count: int, new_epoch: bool, size: int) -> None:
        first = first_of(epoch_of(self.last) + 1) if new_epoch or self.last == 0 else self.last + 1
        zxids = range(first, first + count)
        self.recent.append([Entry(zxid, bytes(size)) for zxid in zxids])
        self.history += zxids
        unapplied = sum(zxid > self.recent.applied_zxid for zxid in self.history)
        assert len(self.recent) <= max(2 * self.count_max, unapplied)

    @rule(gap=st.integers(2, 9))
    def refuse_a_gap(self, gap: int) -> None:
        with pytest.raises(RemoteProtocolError):
            self.recent.append([Entry(self.last + gap, b"")])

    @rule(share=st.floats(0, 1))
    def apply(self, share: float) -> None:
        applied = self.history[int(share * (len(self.history) - 1))]
        self.recent.applied_zxid = max(self.recent.applied_zxid, applied)

    @rule(back=st.integers(0, 6))
    def truncate(self, back: int) -> None:
        zxid = self.history[max(0, len(self.history) - 1 - back)]
        if zxid < self.recent.base:
            return
        self.recent.truncate_to(zxid)
        self.history = [held for held in self.history if held <= zxid]

    @rule(epochs=st.integers(1, 3), counter=st.integers(1, 9))
    def reset(self, epochs: int, counter: int) -> None:
        self.history = [epoch_of(self.last) + epochs << 32 | counter]
        self.recent.reset(self.last)

    @invariant()
    def it_ends_where_the_history_ends(self) -> None:
        assert self.recent.last_zxid == self.last

    @invariant()
    def what_it_hands_out_is_what_follows(self) -> None:
        for index, zxid in enumerate(self.history):
            handed = self.recent.since(zxid)
            if zxid >= self.recent.base:
                assert handed is not None
                assert [entry.zxid for entry in handed] == self.history[index + 1 :]
            else:
                assert handed is None
        assert self.recent.since(self.last + 1) is None

    @invariant()
    def the_floor_is_common_ground(self) -> None:
        for zxid in (self.last + 5, self.last, self.recent.base, self.recent.base - 1):
            below = [held for held in self.history if self.recent.base <= held <= zxid]
            assert self.recent.floor(zxid) == (below[-1] if below else None)

    @invariant()
    def the_tree_never_lags_behind_it(self) -> None:
        assert self.recent.base <= self.recent.applied_zxid <= self.last


TestRecent = RecentMachine.TestCase
TestRecent.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
