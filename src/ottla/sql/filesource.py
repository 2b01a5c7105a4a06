"""Topics in the files of brokers, as the source of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.scan.columns import EVERYTHING, Filter
from ottla.scan.decoding import Decoded
from ottla.scan.fetching import Range
from ottla.scan.files import LogFiles
from ottla.scan.kernel import TIMESTAMP_MIN
from ottla.scan.localreading import read_files


class FilesSource:
    """Topics in the log directories of brokers, which need not run."""

    def __init__(self, files: LogFiles, *, read_committed: bool = False) -> None:
        self._files = files
        self._read_committed = read_committed

    def topics(self) -> list[str]:
        return self._files.topics()

    def ranges(self, topic: str, passing: Filter = EVERYTHING) -> list[Range]:
        found = []
        for place, log in sorted(self._files.logs.items()):
            if place.topic == topic and passing.wants(*place):
                start = log.start if passing.timestamp_from == TIMESTAMP_MIN else log.offset_of(passing.timestamp_from)
                end = log.last_stable_offset() if self._read_committed else log.end
                found.append(Range(place, max(start, passing.first_offset), min(end, passing.end_offset)))
        return [one for one in found if len(one)]

    def read(self, wanted: Sequence[Range], names: frozenset[str], passing: Filter = EVERYTHING) -> Iterator[Decoded]:
        return read_files(self._files, wanted, names, passing, read_committed=self._read_committed)

    def samples(self, wanted: Sequence[Range], names: frozenset[str], fetch_bytes: int) -> Iterator[Decoded]:
        return self.read(wanted, names)

    def close(self) -> None:
        """Nothing is kept open."""
