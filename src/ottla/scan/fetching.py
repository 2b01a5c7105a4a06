"""A range of a partition, fetched: large requests over a connection of its own, the next one sent before this one is used.

Where the next request begins is known from the headers of the last response, so while a run is decoded the broker already
sends what follows it. Leaders that move and connections that break are dealt with here; nobody behind notices.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ottla.base.errors import RemoteProtocolError
from ottla.records.batch import HEADER_BYTES
from ottla.scan.cluster import BACKOFF_MAX_S, BACKOFF_S, EARLIEST, Cluster, TopicPartition
from ottla.scan.connection import Connection
from ottla.scan.decoding import Run, next_offset
from ottla.scan.errors import DataLossError, ScanError, UnreachableError
from ottla.wire import ErrorCode, in_memory
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

FETCH_BYTES = 4 << 20
WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a partition, ``end`` not included."""

    place: TopicPartition
    start: int
    end: int

    def __len__(self) -> int:
        return max(self.end - self.start, 0)


@dataclass(frozen=True, slots=True)
class Fetching:
    """How ranges are fetched."""

    read_committed: bool = False
    fetch_bytes: int = FETCH_BYTES
    fail_on_data_loss: bool = True


def fetch(cluster: Cluster, wanted: Range, how: Fetching = Fetching()) -> Iterator[Run]:  # frozen
    """The runs of a range in order. Their first batch may begin before it and their last may end behind it."""
    reader = _Reader(cluster, wanted, how)
    try:
        yield from reader.runs()
    finally:
        reader.close()


class _Reader:
    def __init__(self, cluster: Cluster, wanted: Range, how: Fetching) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._how = how
        self._position = wanted.start
        self._connection: Connection | None = None
        self._deadline = 0.0
        self._pause = BACKOFF_S

    def runs(self) -> Iterator[Run]:
        self._progressed()
        while self._position < self._wanted.end:
            try:
                run = self._next()
            except (OSError, RemoteProtocolError) as error:
                self._again(error)
                continue
            if run is not None:
                self._progressed()
                yield run

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _next(self) -> Run | None:
        """One response, with the request for what follows it on its way; None if there was nothing in it."""
        if self._connection is None:
            self._connection = self._cluster.connect(self._wanted.place)
        if not self._connection.in_flight:
            self._connection.send(self._request())
        answer = self._connection.receive(FetchResponse)
        found = _only(answer)
        if found is None or found.error_code:
            self._failed(answer.error_code if found is None else found.error_code)
            return None
        run = _run(found)._replace(first_offset=self._position)
        behind = next_offset(run)
        if behind <= self._position:
            if run.start < run.end:
                raise ScanError(f"{self._wanted.place}: the broker answers offset {self._position} with none of it")
            self._ended(found)
            return None
        self._position = behind
        if behind < self._wanted.end:
            self._connection.send(self._request())
        return run

    def _request(self) -> FetchRequest:
        place, how = self._wanted.place, self._how
        partition = FetchPartition(
            partition=place.partition, fetch_offset=self._position, partition_max_bytes=how.fetch_bytes
        )
        return FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=how.fetch_bytes,
            isolation_level=int(how.read_committed),
            topics=[FetchTopic(topic=place.topic, partitions=[partition])],
        )

    def _failed(self, code: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
            return
        self._cluster.note_error(self._wanted.place, code)
        self._again(ScanError(ErrorCode(code).name))

    def _out_of_range(self) -> None:
        place, wanted = self._wanted.place, self._wanted
        first = self._cluster.offsets({place: EARLIEST})[place]
        if first > self._position:
            what = f"offsets {self._position} to {min(first, wanted.end) - 1} of {place} are gone, the log starts at {first}"
            if self._how.fail_on_data_loss:
                raise DataLossError(f"{what}: retention or a deletion of records was faster than this reader")
            self._position = first
        elif self._how.fail_on_data_loss:
            raise DataLossError(
                f"offset {self._position} of {place} is not there, though it once was: the topic was made anew, "
                "or a leader was elected that lacked records"
            )
        else:
            self._position = wanted.end

    def _ended(self, found: PartitionData) -> None:
        """Nothing at the position: it is still to come, or it never will."""
        end = found.last_stable_offset if self._how.read_committed else found.high_watermark
        if self._position >= end:
            # What was planned was there. If the log is shorter now, no waiting brings it back; if it only lags, it does.
            self._again(UnreachableError(f"{self._wanted.place} ends at {end}, before {self._wanted.end}"))

    def _again(self, error: Exception) -> None:
        """Start over with another connection, after a pause, unless it has been too long since anything came."""
        self.close()
        self._cluster.forget(self._wanted.place)
        if time.monotonic() > self._deadline:
            if isinstance(error, UnreachableError) and not self._how.fail_on_data_loss:
                self._position = self._wanted.end
                return
            raise UnreachableError(f"{self._wanted.place} at offset {self._position}: {error}") from error
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, BACKOFF_MAX_S)

    def _progressed(self) -> None:
        self._deadline = time.monotonic() + self._cluster.settings.timeout_s
        self._pause = BACKOFF_S


def _only(answer: FetchResponse) -> PartitionData | None:
    for topic in answer.responses:
        for partition in topic.partitions:
            return partition
    return None


def _run(found: PartitionData) -> Run:
    records = in_memory(found.records or b"")
    aborted = tuple((one.producer_id, one.first_offset) for one in found.aborted_transactions or ())
    frame = records.obj if isinstance(records, memoryview) else None
    if isinstance(frame, bytes):
        # Records are the last field of the versions that are used here, so where the view lies is known.
        start = len(frame) - len(records)
        if frame[start : start + HEADER_BYTES] == records[:HEADER_BYTES]:
            return Run(frame, start, len(frame), aborted)
    data = bytes(records)
    return Run(data, 0, len(data), aborted)
