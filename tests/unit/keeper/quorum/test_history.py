from __future__ import annotations

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.history import COUNTER_MAX, Recent, counter_of, epoch_of, first_of, follows


def entries(*zxids: int) -> list[Entry]:
    return [Entry(zxid, b"x" * 10) for zxid in zxids]


def recent_of(*zxids: int, base: int = 0, count_max: int = 500) -> Recent:
    recent = Recent(base, count_max=count_max)
    recent.append(entries(*zxids))
    recent.applied_zxid = recent.last_zxid
    return recent


def zxids(of: list[Entry] | None) -> list[int] | None:
    return None if of is None else [entry.zxid for entry in of]


E1, E2, E3 = first_of(1), first_of(2), first_of(3)


def test_a_zxid_is_an_epoch_and_a_counter() -> None:
    assert (epoch_of(E2 + 4), counter_of(E2 + 4)) == (2, 5)


@pytest.mark.parametrize(
    ("previous", "zxid", "expected"),
    [
        (0, E1, True),
        (E1, E1 + 1, True),
        (E1 + 7, E2, True),
        (E1, E3, True),
        (E1, E1, False),
        (E1, E1 + 2, False),
        (E1, E2 + 1, False),
        (E2, E1 + 1, False),
        (1 << 32 | COUNTER_MAX, E2, True),
        (1 << 32 | COUNTER_MAX, 2 << 32, False),
    ],
)
def test_what_may_stand_behind_what(previous: int, zxid: int, expected: bool) -> None:
    assert follows(previous, zxid) is expected


def test_a_gap_is_refused() -> None:
    recent = recent_of(E1, E1 + 1)
    with pytest.raises(RemoteProtocolError, match="does not follow"):
        recent.append(entries(E1 + 3))


def test_what_follows_a_known_zxid_is_handed_out() -> None:
    recent = recent_of(E1, E1 + 1, E2)
    assert zxids(recent.since(E1)) == [E1 + 1, E2]
    assert zxids(recent.since(0)) == [E1, E1 + 1, E2]
    assert zxids(recent.since(E2)) == []


def test_nothing_is_handed_out_behind_a_zxid_that_is_not_in_the_history() -> None:
    recent = recent_of(E1, E2, base=0)
    assert recent.since(E1 + 5) is None
    assert recent.since(E3) is None


def test_the_floor_is_the_newest_entry_not_above() -> None:
    recent = recent_of(E1 + 4, E2, base=E1 + 3)
    assert recent.floor(E1 + 9) == E1 + 4
    assert recent.floor(E3) == E2
    assert recent.floor(E1 + 3) == E1 + 3
    assert recent.floor(E1) is None


def test_the_oldest_entries_go_first_and_the_base_moves_on() -> None:
    recent = recent_of(*range(E1, E1 + 20), count_max=5)
    recent.append(entries(E1 + 20))
    assert len(recent) == 5
    assert recent.since(E1 + 15) is not None
    assert recent.since(E1 + 14) is None


def test_what_the_tree_does_not_contain_yet_is_never_dropped() -> None:
    recent = Recent(0, count_max=5)
    recent.append(entries(*range(E1, E1 + 30)))
    assert zxids(recent.since(0)) == list(range(E1, E1 + 30))
    recent.applied_zxid = E1 + 2
    recent.append(entries(E1 + 30))
    assert zxids(recent.since(E1 + 2)) == list(range(E1 + 3, E1 + 31))


def test_bytes_are_bounded_too() -> None:
    recent = Recent(0, count_max=500, bytes_max=100)
    for zxid in range(E1, E1 + 50):
        recent.append(entries(zxid))
        recent.applied_zxid = zxid
    assert len(recent) <= 20
    assert recent.last_zxid == E1 + 49


def test_truncation_forgets_the_end() -> None:
    recent = recent_of(E1, E1 + 1, E1 + 2)
    recent.truncate_to(E1)
    assert recent.last_zxid == E1
    recent.append(entries(E2))
    assert zxids(recent.since(E1)) == [E2]


def test_a_reset_starts_another_history() -> None:
    recent = recent_of(E1, E1 + 1)
    recent.reset(E3)
    assert (recent.base, recent.last_zxid, recent.applied_zxid, len(recent)) == (E3, E3, E3, 0)
