"""How fast connections may come: to the broker, to one listener, and from one address (KIP-612).

One that comes too fast is taken and kept, and nothing is read from it before its time. Kafka closes those of an address that
is too fast; here they only wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.base.rates import SampledRate
from ottla.broker.quotas.entities import ANY

ADDRESSES_MAX: Final = 10_000
_NOBODY: Final = 2**31 - 1


class ConnectionRates:
    def __init__(self, *, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._broker = self._rate()
        self._listeners: dict[str, SampledRate] = {}
        self._addresses: dict[str, SampledRate] = {}
        self._broker_max = _NOBODY
        self._listener_max: Mapping[str, int] = {}
        self._address_max: Mapping[str, float] = {}
        self.is_on = False

    def configure(self, *, broker_max: int, listener_max: Mapping[str, int], address_max: Mapping[str, float]) -> None:
        self._broker_max, self._listener_max, self._address_max = broker_max, listener_max, address_max
        limited = (broker_max, *listener_max.values())
        self.is_on = bool(address_max) or any(limit != _NOBODY for limit in limited)

    def wait_ms(self, listener: str, address: str, now_ms: float) -> int:
        """A connection has come: how long it has to wait."""
        waits = [
            _charged(self._broker, self._broker_max, now_ms),
            _charged(
                self._listeners.setdefault(listener, self._rate()), self._listener_max.get(listener, _NOBODY), now_ms
            ),
        ]
        limit = self._address_max.get(address, self._address_max.get(ANY))
        if limit is not None:
            if len(self._addresses) >= ADDRESSES_MAX:
                busy = {address: rate for address, rate in self._addresses.items() if not rate.is_idle(now_ms)}
                self._addresses = busy
            waits.append(_charged(self._addresses.setdefault(address, self._rate()), limit, now_ms))
        return max(waits)

    def _rate(self) -> SampledRate:
        return SampledRate(samples=self._samples, window_ms=self._window_ms)


def _charged(rate: SampledRate, limit: float, now_ms: float) -> int:
    if limit == _NOBODY:
        return 0
    rate.record(1, now_ms)
    return rate.wait_ms(limit, now_ms)
