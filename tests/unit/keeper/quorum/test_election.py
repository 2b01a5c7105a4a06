from __future__ import annotations

from itertools import pairwise

from ottla.keeper.quorum.effects import Effects
from ottla.keeper.quorum.election import Election
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import Notification, Role, Vote

TIMING = Timing()
THREE = frozenset({1, 2, 3})
FIVE = frozenset({1, 2, 3, 4, 5})


def election(
    me: int = 1, *, voters: frozenset[int] = THREE, zxid: int = 10, blank: bool = False, round_: int = 1
) -> Election:
    members = Membership(me, voters, frozenset({8, 9}))
    initial = Vote(0 if blank else 1, zxid, me) if me in voters else Vote(-1, -1, me)
    return Election(members, TIMING, initial, blank=blank, round_=round_, now_ms=0, unreachable={})


def looking(sender: int, vote: Vote, *, round_: int = 1, blank: bool = False) -> Notification:
    return Notification(sender, Role.LOOKING, round_, vote, blank)


def hear(state: Election, n: Notification, now_ms: int = 0) -> list[tuple[int, Notification]]:
    effects = Effects()
    state.on_notification(n, now_ms, effects)
    return effects.notify


def test_a_better_vote_is_adopted_and_everybody_told() -> None:
    state = election()
    told = hear(state, looking(2, Vote(1, 11, 2)))
    assert state.vote == Vote(1, 11, 2)
    assert {to for to, n in told if n.vote == state.vote} == {2, 3, 8, 9}


def test_votes_are_ranked_by_epoch_then_zxid_then_server() -> None:
    state = election(3, zxid=10)
    hear(state, looking(1, Vote(1, 10, 1)))
    assert state.vote.leader == 3
    hear(state, looking(1, Vote(1, 11, 1)))
    assert state.vote.leader == 1
    hear(state, looking(2, Vote(2, 5, 2)))
    assert state.vote.leader == 2


def test_a_worse_vote_is_answered_with_ours() -> None:
    state = election(3)
    told = hear(state, looking(1, Vote(1, 10, 1)))
    assert [(to, n.vote.leader) for to, n in told] == [(1, 3)]


def test_an_equal_vote_is_not_answered() -> None:
    state = election(3)
    assert hear(state, looking(1, Vote(1, 10, 3))) == []


def test_all_votes_decide_at_once() -> None:
    state = election(3)
    hear(state, looking(1, Vote(1, 10, 3)))
    assert state.decided is None
    hear(state, looking(2, Vote(1, 10, 3)))
    assert state.decided == Vote(1, 10, 3)


def test_a_quorum_waits_a_moment_for_a_better_candidate() -> None:
    state = election(3)
    state.tick(0, Effects())
    hear(state, looking(1, Vote(1, 10, 3)), now_ms=0)
    assert state.next_ms() == TIMING.finalize_ms
    state.tick(TIMING.finalize_ms - 1, Effects())
    assert state.decided is None
    state.tick(TIMING.finalize_ms, Effects())
    assert state.decided == Vote(1, 10, 3)


def test_a_better_candidate_starts_the_wait_anew() -> None:
    state = election(2)
    hear(state, looking(1, Vote(1, 10, 2)), now_ms=0)
    hear(state, looking(3, Vote(1, 12, 3)), now_ms=90)
    state.tick(150, Effects())
    assert state.decided is None


def test_a_later_round_is_joined_with_the_better_of_both_votes() -> None:
    state = election(3, zxid=20)
    told = hear(state, looking(1, Vote(1, 10, 1), round_=7))
    assert state.round == 7
    assert state.vote == Vote(1, 20, 3)
    assert all(n.round == 7 for _, n in told)


def test_an_earlier_round_is_answered_and_not_counted() -> None:
    state = election(3, round_=5)
    told = hear(state, looking(1, Vote(1, 10, 3), round_=4))
    assert [(to, n.round) for to, n in told] == [(1, 5)]
    state.tick(1000, Effects())
    assert state.decided is None


def test_a_leader_with_a_quorum_that_includes_us_is_followed() -> None:
    state = election(1)
    vote = Vote(4, 99, 2)
    hear(state, Notification(2, Role.LEADING, 9, vote, blank=False))
    assert state.decided == vote


def test_a_leader_without_a_quorum_is_not() -> None:
    state = election(1, voters=FIVE)
    hear(state, Notification(2, Role.LEADING, 9, Vote(4, 99, 2), blank=False))
    assert state.decided is None
    hear(state, Notification(3, Role.FOLLOWING, 9, Vote(4, 99, 2), blank=False))
    assert state.decided is not None


def test_followers_alone_make_no_leader() -> None:
    state = election(1)
    hear(state, Notification(3, Role.FOLLOWING, 9, Vote(4, 99, 2), blank=False))
    assert state.decided is None


def test_a_blank_server_does_not_make_a_quorum_with_one_that_is_not() -> None:
    state = election(1, zxid=10)
    hear(state, looking(2, Vote(1, 10, 1), blank=True))
    state.tick(10_000, Effects())
    assert state.decided is None


def test_blank_servers_among_themselves_do() -> None:
    state = election(3, zxid=0, blank=True)
    hear(state, looking(1, Vote(0, 0, 3), blank=True))
    state.tick(TIMING.finalize_ms, Effects())
    assert state.decided == Vote(0, 0, 3)


def test_a_blank_server_follows_a_leader_only_if_others_do_already() -> None:
    state = election(1, zxid=0, blank=True)
    hear(state, Notification(2, Role.LEADING, 3, Vote(4, 99, 2), blank=False))
    assert state.decided is None
    hear(state, Notification(3, Role.FOLLOWING, 3, Vote(4, 99, 2), blank=False))
    assert state.decided == Vote(4, 99, 2)


def test_blank_servers_count_once_everybody_was_heard_and_nobody_has_anything() -> None:
    state = election(3, zxid=0)
    hear(state, looking(1, Vote(1, 0, 3), blank=True))
    state.tick(1000, Effects())
    assert state.decided is None
    hear(state, looking(2, Vote(1, 0, 3), blank=True))
    assert state.decided is not None


def test_an_observer_asks_listens_and_never_answers() -> None:
    state = election(8, round_=0)
    effects = Effects()
    state.tick(0, effects)
    assert {to for to, _ in effects.notify} == {1, 2, 3, 9}
    assert hear(state, looking(9, Vote(-1, -1, 9))) == []
    assert hear(state, looking(1, Vote(1, 10, 1), round_=4)) == []
    assert hear(state, looking(2, Vote(1, 10, 3), round_=4)) == []
    assert hear(state, looking(1, Vote(1, 10, 3), round_=4)) == []
    assert hear(state, looking(3, Vote(1, 10, 3), round_=3)) == []
    state.tick(1000, effects)
    assert state.decided == Vote(1, 10, 3)


def test_a_voter_answers_an_observer_and_does_not_count_it() -> None:
    state = election(3)
    assert [to for to, _ in hear(state, looking(8, Vote(1, 10, 3)))] == [8]
    state.tick(1000, Effects())
    assert state.decided is None


def test_votes_for_a_server_that_could_not_be_called_are_passed_over_for_a_while() -> None:
    members = Membership(1, THREE)
    state = Election(members, TIMING, Vote(1, 10, 1), blank=False, round_=1, now_ms=0, unreachable={3: 500})
    hear(state, looking(3, Vote(1, 10, 3)), now_ms=499)
    assert state.vote.leader == 1
    hear(state, looking(3, Vote(1, 10, 3)), now_ms=500)
    assert state.vote.leader == 3


def test_unanswered_notifications_are_repeated_ever_less_often() -> None:
    state, effects, sent = election(), Effects(), []
    for now_ms in range(0, 8000, 50):
        before = len(effects.notify)
        state.tick(now_ms, effects)
        if len(effects.notify) > before:
            sent.append(now_ms)
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert gaps[:3] == [200, 400, 800]
    assert max(gaps) == TIMING.tick_ms


def ticked(state: Election, now_ms: int) -> list[str]:
    effects = Effects()
    state.tick(now_ms, effects)
    return effects.log


def test_it_is_said_once_that_only_the_votes_of_blank_servers_are_missing() -> None:
    state = election(1)
    for other in (2, 3):
        hear(state, looking(other, state.vote, blank=True))
    assert ticked(state, 0) == ticked(state, TIMING.tick_ms - 1) == []
    (line,) = ticked(state, TIMING.tick_ms)
    assert "these servers hold no data and so do not vote: 2, 3. Start another server" in line
    assert ticked(state, 10 * TIMING.tick_ms) == []


def test_nothing_is_said_while_servers_that_may_vote_are_missing_or_there_is_a_leader() -> None:
    alone = election(1, voters=FIVE)
    hear(alone, looking(2, alone.vote, blank=True))
    blank = election(1, zxid=0, blank=True)
    hear(blank, looking(2, Vote(1, 10, 2)))
    elected = election(1)
    hear(elected, looking(2, elected.vote))
    hear(elected, looking(3, elected.vote, blank=True))
    for state in (alone, blank, elected):
        assert ticked(state, 0) == ticked(state, 5 * TIMING.tick_ms) == []
    assert elected.decided is not None
