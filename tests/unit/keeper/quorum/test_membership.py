from __future__ import annotations

import pytest

from ottla.keeper.quorum.membership import Membership


@pytest.mark.parametrize(
    ("voters", "servers", "expected"),
    [
        ({1}, {1}, True),
        ({1, 2}, {1}, False),
        ({1, 2, 3}, {1, 3}, True),
        ({1, 2, 3}, {1}, False),
        ({1, 2, 3, 4}, {1, 2}, False),
        ({1, 2, 3, 4, 5}, {2, 4, 5}, True),
    ],
)
def test_more_than_half_of_the_votes_make_a_quorum(voters: set[int], servers: set[int], expected: bool) -> None:
    assert Membership(1, frozenset(voters)).is_quorum(servers) is expected


def test_observers_and_strangers_have_no_vote() -> None:
    members = Membership(1, frozenset({1, 2, 3}), frozenset({4, 5}))
    assert not members.is_quorum({1, 4, 5, 6})
    assert not members._replace(server_id=4).is_voter
    assert members.knows(5)
    assert not members.knows(6)


def test_the_others_come_in_the_same_order_every_time() -> None:
    assert Membership(2, frozenset({3, 1, 2}), frozenset({5, 4})).others == [1, 3, 4, 5]
