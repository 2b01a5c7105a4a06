"""How many segments at the start of a log are done with, by its start offset, by time, by size; and files that go later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ottla.log.config import LogConfig
from ottla.log.files import DELETED_SUFFIX, remove_if_there
from ottla.log.producers import snapshot_path
from ottla.log.segment import Segment


def count_done(
    segments: Sequence[Segment],
    ends: Sequence[int],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many of ``segments``, which end at ``ends``. Never one that the high watermark has not passed."""

    def count(is_done: Callable[[int], bool]) -> int:
        done = 0
        for number, segment in enumerate(segments):
            empty_and_active = number + 1 == len(segments) and segment.size == 0
            if empty_and_active or ends[number] > high_watermark or not is_done(number):
                break
            done += 1
        return done

    found = count(lambda number: ends[number] <= log_start_offset)
    if not config.deletes:
        return found
    if config.retention_ms >= 0:
        found = max(found, count(lambda number: now_ms - segments[number].largest.timestamp > config.retention_ms))
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - config.retention_bytes

        def fits(number: int) -> bool:
            nonlocal excess
            excess -= segments[number].size
            return excess >= 0

        found = max(found, count(fits))
    return found


class Doomed:
    """Files that a log has no use for any more, until nobody reads them: their names say so, and when they go is here."""

    def __init__(self) -> None:
        self._paths: list[tuple[int, Path]] = []

    def add(self, paths: Sequence[Path], *, due_ms: int) -> None:
        self._paths += [(due_ms, path) for path in paths]

    def add_snapshot(self, directory: Path, offset: int, *, due_ms: int) -> None:
        """The snapshot of the producers that a segment started with, if there is one."""
        path = snapshot_path(directory, offset)
        if path.exists():
            self.add([path.replace(path.with_name(path.name + DELETED_SUFFIX))], due_ms=due_ms)

    def moved(self, directory: Path) -> None:
        """The directory of the log was renamed."""
        self._paths = [(due_ms, directory / path.name) for due_ms, path in self._paths]

    def remove(self, *, now_ms: int) -> int:
        """Delete those that are due; how many."""
        due = [path for due_ms, path in self._paths if due_ms <= now_ms]
        self._paths = [each for each in self._paths if each[0] > now_ms]
        for path in due:
            remove_if_there(path)
        return len(due)
