"""Who has a seat, who waits for one, and who has to go."""

from __future__ import annotations

from ottla.broker.seats import Seats


class Someone:
    def __init__(self, seats: Seats, listener: str = "OUT", heard_s: float = 0.0) -> None:
        self.listener = listener
        self.heard_s = heard_s
        self.is_seated = False
        self.is_gone = False
        self._seats = seats
        seats.enter(self)

    def last_heard_s(self) -> float:
        return self.heard_s

    def seated(self) -> None:
        self.is_seated = True

    def abort(self) -> None:
        self.is_gone = True

    def leave(self) -> None:
        self._seats.leave(self)


def limit(
    seats: Seats,
    broker_max: int,
    *,
    listener_max: dict[str, int] | None = None,
    protected: str | None = None,
    waiting_max: int = 9,
) -> None:
    seats.limit(broker_max=broker_max, listener_max=listener_max or {}, protected=protected, waiting_max=waiting_max)


def told(*them: Someone) -> str:
    return " ".join("gone" if each.is_gone else "seated" if each.is_seated else "waits" for each in them)


def test_who_finds_no_seat_waits_until_somebody_leaves_in_order() -> None:
    seats = Seats()
    limit(seats, 2)
    first, second, third, fourth = (Someone(seats) for _ in range(4))
    assert told(first, second, third, fourth) == "seated seated waits waits"
    second.leave()
    assert told(third, fourth) == "seated waits"
    first.leave()
    assert told(fourth) == "seated"
    assert len(seats) == 2


def test_who_waits_and_goes_takes_no_seat() -> None:
    seats = Seats()
    limit(seats, 1)
    first, second, third = (Someone(seats) for _ in range(3))
    second.leave()
    first.leave()
    assert told(third) == "seated"
    assert len(seats) == 1
    third.leave()
    third.leave()
    assert len(seats) == 0


def test_a_listener_has_a_limit_of_its_own_and_keeps_nobody_else_waiting() -> None:
    seats = Seats()
    limit(seats, 10, listener_max={"OUT": 1})
    first, second, other = Someone(seats), Someone(seats), Someone(seats, "OTHER")
    assert told(first, second, other) == "seated waits seated"
    other.leave()
    assert told(second) == "waits"
    first.leave()
    assert told(second) == "seated"


def test_only_so_many_may_wait() -> None:
    seats = Seats()
    limit(seats, 1, waiting_max=1)
    assert told(Someone(seats), Someone(seats), Someone(seats)) == "seated waits gone"


def test_brokers_are_let_in_beyond_the_limit_and_the_most_silent_client_goes() -> None:
    seats = Seats()
    limit(seats, 2, protected="IN")
    silent, lively = Someone(seats, heard_s=1.0), Someone(seats, heard_s=2.0)
    broker = Someone(seats, "IN", heard_s=0.0)
    assert told(silent, lively, broker) == "gone seated seated"
    silent.leave()
    assert told(Someone(seats)) == "waits"
    assert told(Someone(seats, "IN"), lively) == "seated gone"


def test_brokers_keep_to_the_limit_of_their_listener() -> None:
    seats = Seats()
    limit(seats, 1, listener_max={"IN": 1}, protected="IN")
    assert told(Someone(seats, "IN"), Someone(seats, "IN")) == "seated waits"


def test_limits_that_change_let_in_and_send_away() -> None:
    seats = Seats()
    limit(seats, 1)
    first, second, third = (Someone(seats, heard_s=number) for number in range(3))
    limit(seats, 3)
    assert told(first, second, third) == "seated seated seated"
    limit(seats, 2)
    assert told(first, second, third) == "gone seated seated"


def test_at_the_end_nobody_is_seated_any_more() -> None:
    seats = Seats()
    limit(seats, 1)
    first, second = Someone(seats), Someone(seats)
    seats.close()
    first.leave()
    assert told(second) == "gone"
    assert not second.is_seated
