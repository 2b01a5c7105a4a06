"""The cluster as this broker knows it: the newest image, and who wants to hear of a newer one."""

from __future__ import annotations

from collections.abc import Callable

from ottla.metadata.image import Image


class ClusterView:
    def __init__(self) -> None:
        self.image = Image()
        self._waiting: list[Callable[[], None]] = []

    def update(self, image: Image) -> None:
        self.image = image
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def when_changed(self, wake: Callable[[], None]) -> None:
        """Call once, after the next update."""
        self._waiting.append(wake)
