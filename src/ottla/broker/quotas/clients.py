"""What a request costs its sender, and how long the sender has to wait for the next.

As long as no limit is set for anybody, ``is_on`` is False, and that is all the path of a request looks at. Otherwise every
answer passes ``charge``: bytes of a produce request, bytes of a fetch response, and the time spent on any request, as a share
of one second in percent. The longest of the waits is told to the client (``throttle_time_ms``) with the answer, which is sent
at once, and nothing more is read from its connection for so long (KIP-219).

A fetch that is over is answered without records, and is not counted: its client asks again once it has waited. So a quota is
kept whatever the size of an answer; and no answer is made larger than what fits into the windows of a quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.base.rates import MOST_MS, SampledRate, TokenBucket
from ottla.broker.quotas.entities import FETCH, MUTATION, PRODUCE, REQUEST, Entity, Limits, Share, quotas_of
from ottla.metadata.znodes.configs import ConfigEntity

SENSORS_MAX: Final = 10_000
"""Entities whose use is remembered, beyond which those that are idle are forgotten."""
_UNLIMITED: Final = 1 << 62


class _Sensor:
    """Of one entity: what it uses, and how long those who were over had to wait."""

    __slots__ = ("rate", "waited_ms", "waits")

    def __init__(self, *, samples: int, window_ms: int) -> None:
        self.rate = SampledRate(samples=samples, window_ms=window_ms)
        self.waits = SampledRate(samples=samples, window_ms=window_ms)
        self.waited_ms = SampledRate(samples=samples, window_ms=window_ms)

    def is_idle(self, now_ms: float) -> bool:
        return self.rate.is_idle(now_ms) and self.waits.is_idle(now_ms)

    def wait_mean_ms(self, now_ms: float) -> float:
        return self.waited_ms.total(now_ms) / max(self.waits.total(now_ms), 1)


class _Use:
    """What is used of the limits of one kind, by entity."""

    def __init__(self, *, samples: int, window_ms: int, wait_ms_max: int = MOST_MS) -> None:
        self.limits = Limits({})
        self.samples = samples
        self.window_ms = window_ms
        self.wait_ms_max = wait_ms_max
        self._sensors: dict[Entity, _Sensor] = {}

    def _sensor_of(self, share: Share, now_ms: float) -> _Sensor:
        found = self._sensors.get(share.entity)
        if found is None:
            if len(self._sensors) >= SENSORS_MAX:
                self._sensors = {
                    entity: sensor for entity, sensor in self._sensors.items() if not sensor.is_idle(now_ms)
                }
            found = self._sensors[share.entity] = _Sensor(samples=self.samples, window_ms=self.window_ms)
        return found

    def charge(self, user: str, client: str, amount: float, now_ms: float) -> int:
        """Count what was used; how long to wait."""
        share = self.limits.find(user, client)
        if share is None:
            return 0
        sensor = self._sensor_of(share, now_ms)
        sensor.rate.record(amount, now_ms)
        wait_ms = min(sensor.rate.wait_ms(share.limit, now_ms), self.wait_ms_max)
        if wait_ms:
            sensor.waits.record(1, now_ms)
            sensor.waited_ms.record(wait_ms, now_ms)
        return wait_ms

    def uncharge(self, user: str, client: str, amount: float, now_ms: float) -> None:
        share = self.limits.find(user, client)
        if share is not None:
            self._sensor_of(share, now_ms).rate.record(-amount, now_ms)

    def told(self, now_ms: float) -> list[tuple[Entity, float, float]]:
        """Who has used something lately, how much a second, and how long the waits were on average; 0 without any."""
        return [
            (entity, sensor.rate.rate(now_ms), sensor.wait_mean_ms(now_ms))
            for entity, sensor in self._sensors.items()
            if not sensor.is_idle(now_ms)
        ]

    def is_rested(self, user: str, client: str, now_ms: float) -> bool:
        share = self.limits.find(user, client)
        return share is not None and self._sensor_of(share, now_ms).rate.rate(now_ms) <= 0

    def most(self, user: str, client: str) -> float:
        """What fits into all windows of a quota together."""
        share = self.limits.find(user, client)
        if share is None or not share.limit >= 0:
            return _UNLIMITED
        return min(share.limit * (self.samples - 1) * self.window_ms / 1000, _UNLIMITED)


class ClientQuotas:
    def __init__(self, *, samples: int, window_ms: int, mutation_samples: int, mutation_window_ms: int) -> None:
        self.is_on = False
        self.produce = _Use(samples=samples, window_ms=window_ms)
        self.fetch = _Use(samples=samples, window_ms=window_ms)
        # At most one window, as with Kafka: a request that took long is no reason to be deaf for longer.
        self.request = _Use(samples=samples, window_ms=window_ms, wait_ms_max=window_ms)
        self._mutations = Limits({})
        self._mutation_windows = (mutation_samples, mutation_window_ms)
        self._buckets: dict[Entity, TokenBucket] = {}

    def configure(self, configs: Mapping[ConfigEntity, Mapping[str, str]]) -> None:
        """Take on the limits that are set now; what was used stays counted."""
        for use, key in ((self.produce, PRODUCE), (self.fetch, FETCH), (self.request, REQUEST)):
            use.limits = Limits(quotas_of(configs, key))
        self._mutations = Limits(quotas_of(configs, MUTATION))
        self.is_on = any((self.produce.limits, self.fetch.limits, self.request.limits, self._mutations))

    def charge_produce(self, user: str, client: str, request_bytes: int, now_ms: float) -> int:
        return self.produce.charge(user, client, request_bytes, now_ms)

    def charge_fetch(self, user: str, client: str, response_bytes: int, now_ms: float) -> tuple[int, bool]:
        """How long to wait, and whether the answer is sent now; one that is not is not counted either.

        A batch may be larger than everything that fits into a quota. It is sent to who has had nothing for so long; Kafka
        would never send it.
        """
        rested = self.fetch.is_rested(user, client, now_ms)
        wait_ms = self.fetch.charge(user, client, response_bytes, now_ms)
        if not wait_ms or rested:
            return wait_ms, True
        self.fetch.uncharge(user, client, response_bytes, now_ms)
        return wait_ms, False

    def charge_time(self, user: str, client: str, spent_s: float, now_ms: float) -> int:
        return self.request.charge(user, client, spent_s * 100, now_ms)

    def fetch_bytes_max(self, user: str, client: str) -> int:
        return int(self.fetch.most(user, client))

    def mutations(self, user: str, client: str, now_ms: float) -> Mutations | None:
        """What a client may change of the cluster now; None for as much as it likes."""
        share = self._mutations.find(user, client)
        if share is None:
            return None
        bucket = self._buckets.get(share.entity)
        if bucket is None:
            if len(self._buckets) >= SENSORS_MAX:
                self._buckets.clear()
            samples, window_ms = self._mutation_windows
            bucket = TokenBucket(samples=samples, window_ms=window_ms, now_ms=now_ms)
            self._buckets[share.entity] = bucket
        return Mutations(bucket, share.limit, now_ms)


class Mutations:
    """The changes that one request may make: partitions that come and go (KIP-599)."""

    def __init__(self, bucket: TokenBucket, limit: float, now_ms: float) -> None:
        self._bucket = bucket
        self._limit = limit
        self._now_ms = now_ms
        self.wait_ms = 0
        """What the client is told to wait."""

    def take(self, partitions: int, *, strict: bool) -> bool:
        """Count partitions. A strict client that owes something already is refused; one that is not waits afterwards."""
        if strict and self._bucket.owes(self._limit, self._now_ms):
            self.wait_ms = max(self.wait_ms, self._bucket.wait_ms(self._limit, self._now_ms))
            return False
        self._bucket.take(partitions, self._limit, self._now_ms)
        if not strict:
            self.wait_ms = self._bucket.wait_ms(self._limit, self._now_ms)
        return True
