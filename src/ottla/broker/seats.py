"""How many connections there may be at once: a seat for each, and whoever finds none waits.

``max.connections`` holds for the broker, ``listener.name.NAME.max.connections`` for one listener. A connection without a
seat is not listened to until somebody leaves; as many may wait at each listener as could wait to be accepted, and who comes
then is turned away. The listener between brokers, where it is not the only one, gives seats beyond the broker's limit, and
for each of those the connection of another listener that was silent longest has to go.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Protocol

UNLIMITED = 2**31 - 1


class Guest(Protocol):
    """A connection."""

    @property
    def listener(self) -> str: ...

    def last_heard_s(self) -> float:
        """When something came of it last."""
        ...

    def seated(self) -> None:
        """It has a seat now, and did not have one before."""
        ...

    def abort(self) -> None: ...


class Seats:
    def __init__(self) -> None:
        self._broker_max = UNLIMITED
        self._listener_max: Mapping[str, int] = {}
        self._protected: str | None = None
        self._waiting_max = 0
        self._taken: dict[Guest, None] = {}
        self._by_listener: Counter[str] = Counter()
        self._waiting: deque[Guest] = deque()

    def __len__(self) -> int:
        return len(self._taken)

    def limit(
        self, *, broker_max: int, listener_max: Mapping[str, int], protected: str | None, waiting_max: int
    ) -> None:
        """From now on. Who has been silent longest leaves where there are too many for the broker."""
        self._broker_max = broker_max
        self._listener_max = listener_max
        self._protected = protected
        self._waiting_max = waiting_max
        self._evict()
        self._seat_who_waits()

    def enter(self, guest: Guest) -> None:
        if self._has_room(guest):
            self._seat(guest)
            self._evict()
        elif sum(each.listener == guest.listener for each in self._waiting) < self._waiting_max:
            self._waiting.append(guest)
        else:
            guest.abort()

    def leave(self, guest: Guest) -> None:
        """Whether it had a seat, waited for one, or was turned away."""
        if guest in self._taken:
            del self._taken[guest]
            self._by_listener[guest.listener] -= 1
            self._seat_who_waits()
        elif guest in self._waiting:
            self._waiting.remove(guest)

    def close(self) -> None:
        """Everybody leaves, whoever waits first: nobody is to be seated any more."""
        for guest in list(self._waiting):
            guest.abort()
        self._waiting.clear()

    def _has_room(self, guest: Guest) -> bool:
        if self._by_listener[guest.listener] >= self._listener_max.get(guest.listener, UNLIMITED):
            return False
        return guest.listener == self._protected or len(self._taken) < self._broker_max

    def _seat(self, guest: Guest) -> None:
        self._taken[guest] = None
        self._by_listener[guest.listener] += 1
        guest.seated()

    def _seat_who_waits(self) -> None:
        """In the order in which they came, as far as there is room at their listener."""
        for guest in list(self._waiting):
            if self._has_room(guest):
                self._waiting.remove(guest)
                self._seat(guest)

    def _evict(self) -> None:
        excess = len(self._taken) - self._broker_max
        if excess > 0:
            others = [guest for guest in self._taken if guest.listener != self._protected]
            others.sort(key=lambda guest: guest.last_heard_s())
            for guest in others[:excess]:
                guest.abort()
