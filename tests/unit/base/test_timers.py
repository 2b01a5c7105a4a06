from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.base.timers import ExpiryQueue

TIMES = st.integers(0, 50_000)
KEYS = st.integers(0, 5)


@given(interval_ms=st.integers(1, 5000), timeout_ms=TIMES, start_ms=TIMES)
def test_a_key_expires_never_early_and_at_most_one_interval_late(
    interval_ms: int, timeout_ms: int, start_ms: int
) -> None:
    queue = ExpiryQueue[str](interval_ms)
    queue.update("a", timeout_ms, start_ms)
    due_ms = start_ms + timeout_ms
    assert queue.poll(due_ms - 1) == []
    assert queue.poll(due_ms + interval_ms - 1) == ["a"]
    assert len(queue) == 0


def test_touching_pushes_the_deadline_back() -> None:
    queue = ExpiryQueue[str](10)
    queue.update("a", 100, now_ms=0)
    queue.update("a", 100, now_ms=50)
    assert queue.poll(149) == []
    assert queue.poll(150) == ["a"]


def test_a_shorter_timeout_brings_the_deadline_forward() -> None:
    queue = ExpiryQueue[str](10)
    queue.update("a", 100, now_ms=0)
    queue.update("a", 20, now_ms=0)
    assert queue.deadline_ms("a") == 20
    assert queue.poll(20) == ["a"]
    assert queue.poll(100) == []


def test_a_removed_key_does_not_expire() -> None:
    queue = ExpiryQueue[str](10)
    queue.update("a", 100, now_ms=0)
    assert queue.remove("a")
    assert not queue.remove("a")
    assert "a" not in queue
    assert queue.deadline_ms("a") is None
    assert queue.next_ms() is None
    assert queue.poll(1000) == []


def test_keys_expire_by_deadline_and_then_in_order_of_arrival() -> None:
    queue = ExpiryQueue[str](10)
    for key, timeout_ms in (("c", 30), ("a", 10), ("d", 30), ("b", 20)):
        queue.update(key, timeout_ms, now_ms=0)
    assert queue.next_ms() == 10
    assert queue.poll(1000) == ["a", "b", "c", "d"]


def test_a_bucket_that_was_emptied_and_filled_again_counts_once() -> None:
    queue = ExpiryQueue[str](10)
    queue.update("a", 100, now_ms=0)
    queue.remove("a")
    queue.update("b", 100, now_ms=0)
    assert queue.poll(100) == ["b"]
    assert queue.next_ms() is None


class QueueAgainstDict(RuleBasedStateMachine):
    """The queue, compared with a dict of exact deadlines."""

    @initialize(interval_ms=st.integers(1, 500))
    def begin(self, interval_ms: int) -> None:
        self.now_ms = 0
        self.queue = ExpiryQueue[int](interval_ms)
        self.model: dict[int, int] = {}

    @rule(key=KEYS, timeout_ms=TIMES)
    def touch(self, key: int, timeout_ms: int) -> None:
        self.queue.update(key, timeout_ms, self.now_ms)
        self.model[key] = self.now_ms + timeout_ms

    @rule(key=KEYS)
    def forget(self, key: int) -> None:
        assert self.queue.remove(key) == (self.model.pop(key, None) is not None)

    @rule(step_ms=st.integers(0, 20_000))
    def let_time_pass(self, step_ms: int) -> None:
        self.now_ms += step_ms
        for key in self.queue.poll(self.now_ms):
            assert self.model.pop(key) <= self.now_ms
        assert all(due_ms > self.now_ms - self.queue.interval_ms for due_ms in self.model.values())

    @invariant()
    def same_keys(self) -> None:
        if hasattr(self, "model"):
            assert len(self.queue) == len(self.model)
            assert all(key in self.queue for key in self.model)
            assert (self.queue.next_ms() is None) == (not self.model)


TestQueueAgainstDict = QueueAgainstDict.TestCase
