"""Measurements of which the last few hundred are kept: enough for quantiles of what is going on."""

from __future__ import annotations

from typing import Final

KEPT: Final = 512
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


class Recent:
    __slots__ = ("_kept", "count")

    def __init__(self) -> None:
        self.count = 0
        """Of all that were ever added."""
        self._kept: list[float] = []

    def add(self, value: float) -> None:
        if self.count < KEPT:
            self._kept.append(value)
        else:
            self._kept[self.count % KEPT] = value
        self.count += 1

    def quantiles(self) -> list[tuple[str, float]]:
        """By their names, as Kafka's metrics have them; none if nothing was measured."""
        if not self._kept:
            return []
        ordered = sorted(self._kept)
        return [(name, ordered[min(int(float(name) * len(ordered)), len(ordered) - 1)]) for name in QUANTILES]
