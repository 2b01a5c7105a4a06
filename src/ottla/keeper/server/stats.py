"""What a server counts about its work; four-letter words and metrics show it.

Counters are integers that the code at work adds to. What varies is kept as a ``Summary``: how many, their sum, the
smallest, the largest, and the latest few to take quantiles of. Times are milliseconds.

Some things are too cheap to be measured one by one. Their summary is a ``Sample``: its count is exact, its values are
those of the first few and then of every 64th, which stands for 64.

Budget: 0.2 us for a read, 0.5 us for a write on each server, as far as they are counted one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.clock import Clock
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.txns import TXN_HEADER, Entry, MultiTxn, TxnBody

OP_NAMES: dict[int, str] = {
    OpCode.PING: "PING",
    OpCode.CREATE_SESSION: "SESS",
    OpCode.CLOSE_SESSION: "CLOS",
    OpCode.MULTI: "MULT",
    OpCode.MULTI_READ: "MLTR",
    OpCode.CREATE: "CREA",
    OpCode.CREATE2: "CREA",
    OpCode.CREATE_CONTAINER: "CREA",
    OpCode.CREATE_TTL: "CREA",
    OpCode.DELETE: "DELE",
    OpCode.SET_DATA: "SETD",
    OpCode.RECONFIG: "RECO",
    OpCode.SET_ACL: "SETA",
    OpCode.SYNC: "SYNC",
    OpCode.EXISTS: "EXIS",
    OpCode.GET_DATA: "GETD",
    OpCode.SET_WATCHES: "SETW",
    OpCode.SET_WATCHES2: "STW2",
    OpCode.ADD_WATCH: "ADDW",
    OpCode.GET_ACL: "GETA",
    OpCode.GET_CHILDREN: "GETC",
    OpCode.GET_CHILDREN2: "GETC",
    OpCode.GET_ALL_CHILDREN_NUMBER: "GETACN",
    OpCode.CHECK_WATCHES: "CHKW",
    OpCode.REMOVE_WATCHES: "REMW",
    OpCode.WHO_AM_I: "HOMI",
    OpCode.GET_EPHEMERALS: "GETE",
}

RECENT = 256
"""Values that a summary takes its quantiles of: the latest ones."""
SAMPLED_WHOLLY = 64
SAMPLE_MASK = 63
KEYS_MAX = 1000
"""Keys that a set of summaries tells apart; clients choose them, so there must be an end."""


class Summary:
    """Of many values: how many, their sum, the extremes, and the latest."""

    __slots__ = ("_recent", "count", "max", "min", "total")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT)
        self.count = 0
        self.total = 0.0
        self.min = 0.0
        self.max = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Take in ``value``, standing for ``times`` of its like."""
        self.count += times
        self._take(value, times)

    def _take(self, value: float, times: int) -> None:
        self.total += value * times
        recent = self._recent
        self.max = max(self.max, value)
        if value < self.min or not recent:
            self.min = value
        recent.append(value)

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantiles(self, shares: Sequence[float]) -> list[float | None]:
        """The values below which these shares of the latest ones lie; None while there are none."""
        ordered = sorted(self._recent)
        if not ordered:
            return [None] * len(shares)
        return [ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in shares]


class Sample(Summary):
    """A summary that counts everything and is shown some of it: what ``wanted`` says is wanted."""

    __slots__ = ("mask",)

    def __init__(self) -> None:
        super().__init__()
        self.mask = 0

    def wanted(self) -> bool:
        """Count one more; whether its value is to be shown."""
        count = self.count
        self.count = count + 1
        return not count & self.mask

    def show(self, value: float) -> int:
        """Take in a value that was wanted; how many it stands for."""
        times = self.mask + 1
        self._take(value, times)
        if self.count == SAMPLED_WHOLLY:
            self.mask = SAMPLE_MASK
        return times


class SummarySet:
    """Summaries by key. Past ``KEYS_MAX`` of them, new keys are not kept."""

    __slots__ = ("by_key",)

    def __init__(self) -> None:
        self.by_key: dict[str, Summary] = {}

    def add(self, key: str, value: float, times: int = 1) -> None:
        summary = self.by_key.get(key)
        if summary is None:
            if len(self.by_key) >= KEYS_MAX:
                return
            summary = self.by_key[key] = Summary()
        summary.add(value, times)


class Sizes:
    """The last, smallest and largest of some messages; -1 before the first, as ZooKeeper shows it."""

    __slots__ = ("last", "max", "min")

    def __init__(self) -> None:
        self.last = self.min = self.max = -1

    def add(self, size: int) -> None:
        self.last = size
        self.max = max(self.max, size)
        if size < self.min or self.min < 0:
            self.min = size


class Stats:
    """One server's figures since it started, or since ``reset``."""

    def __init__(self) -> None:
        # Clients. Sizes are without the four bytes of length that every packet starts with.
        self.packets_received = 0
        self.packets_unasked = 0
        """Sent, but not to answer a request: connect responses and refusals."""
        self.bytes_received = 0
        self.response_bytes = 0
        self.response_sizes = Sizes()
        self.read_latency = Sample()
        """From a request's arrival to its answer, for all that needs no transaction."""
        self.update_latency = Summary()
        self.connect_requests = 0
        self.connections_dropped = 0
        """Ended by the other side, without closing the session."""
        self.connections_unserved = 0
        """Closed because this server had no leader."""
        self.sessionless_expired = 0
        """Closed because they opened no session in time."""
        self.sessions_revalidated = 0
        """Sessions that came back, through this server."""
        self.auth_failed = 0
        self.throttled = 0
        """How often a client was not read from, because too much was outstanding."""
        self.reads_by_namespace = SummarySet()
        self.writes_by_namespace = SummarySet()
        self.write_size = Sample()

        # What only a leader counts.
        self.prepare_time = Sample()
        self.proposals = 0
        self.proposal_sizes = Sizes()
        self.ack_latency = SummarySet()
        """By server, from the making of a transaction to an acknowledgement that comes before its commit."""
        self.quorum_ack_latency = Summary()
        self.commits = 0
        self.sessions_expired = 0
        self.learners_revalidated = 0
        """Sessions that came back, through a learner."""
        self.quota_exceeded: dict[str, int] = {}
        self.syncs = 0
        """Learners brought up to date."""
        self.syncs_snap = 0
        """Of those, by a snapshot."""

        # What every server does with transactions. Latencies count from their making, by the leader's wall clock.
        self.entries_logged = 0
        self.entries_received = 0
        self.append_time = Summary()
        self.append_to_durable_time = Summary()
        self.entries_synced = Summary()
        """How many one sync of the log made durable."""
        self.fsync_time = Summary()
        self.proposal_latency = Summary()
        self.proposal_ack_latency = Summary()
        self.commit_latency = Summary()
        self.propagation_latency = Summary()
        self.commits_received = 0
        self.entries_applied = Summary()
        """How many one commit brought."""
        self.apply_time = Summary()
        self.digest_mismatches = 0
        self.snapshot_time = Summary()
        self.unrecoverable_errors = 0

        # Becoming what it is.
        self.recovery_time = Summary()
        self.snapshot_load_time = Summary()
        self.log_load_time = Summary()
        self.entries_loaded = Summary()
        self.looking = 0
        self.election_time = Summary()
        self.unavailable_time = Summary()
        self.leader_unavailable_time = Summary()
        self.follower_sync_time = Summary()
        self.observer_sync_time = Summary()
        self.serving_since_ms = 0

        self._election_ms = 0
        self._unsynced: deque[_Batch] = deque()

        # Superseded by fsync_time and snapshot_time; here while disk.py still counts them.
        self.fsync_count = 0
        self.fsync_total_ms = 0.0
        self.fsync_max_ms = 0.0
        self.snapshots = 0

    def reset(self) -> None:
        """``srst``: everything starts again but what describes the present."""
        kept = {name: vars(self)[name] for name in ("serving_since_ms", "_election_ms", "_unsynced")}
        vars(self).update(vars(Stats()) | kept)

    # Clients.

    @property
    def packets_sent(self) -> int:
        """Every answer has a latency, so that is where answers are counted."""
        return self.read_latency.count + self.update_latency.count + self.packets_unasked

    @property
    def latency(self) -> Summary:
        """Of all requests."""
        both = [summary for summary in (self.read_latency, self.update_latency) if summary.count]
        latency = Summary()
        if both:
            latency.count = sum(summary.count for summary in both)
            latency.total = sum(summary.total for summary in both)
            latency.min = min(summary.min for summary in both)
            latency.max = max(summary.max for summary in both)
        return latency

    def read_shown(self, latency_ms: float, frame: bytes, answered: int) -> None:
        """One of the reads that ``read_latency`` wanted, with an answer of so many bytes."""
        times = self.read_latency.show(latency_ms)
        path = _path_of(frame)
        if path:
            self.reads_by_namespace.add(namespace_of(path), len(path) + answered, times)

    def written(self, body: TxnBody) -> None:
        """One of the transactions that ``write_size`` wanted has been applied."""
        parts = [part for _, part in body.txns] if isinstance(body, MultiTxn) else [body]
        times = self.write_size.mask + 1
        total = 0
        for part in parts:
            path = getattr(part, "path", "")
            size = len(path) + len(getattr(part, "data", None) or b"")
            total += size
            if len(path) > 1:
                self.writes_by_namespace.add(namespace_of(path), size, times)
        self.write_size.show(total)

    # The pipeline.

    def over_quota(self, body: bytes) -> None:
        """A request was refused; its body begins with the path."""
        path = body[4 : 4 + int.from_bytes(body[:4], "big")].decode(errors="replace")
        if len(path) > 1:
            namespace = namespace_of(path)
            self.quota_exceeded[namespace] = self.quota_exceeded.get(namespace, 0) + 1

    def proposed(self, entries: Sequence[Entry]) -> None:
        self.proposals += len(entries)
        for entry in entries:
            self.proposal_sizes.add(len(entry.raw))

    def logged(self, entries: Sequence[Entry], started: float, clock: Clock, *, learned: bool) -> None:
        """Entries of a running epoch were written since ``started``; ``durable`` follows."""
        now, count, made_ms = clock.monotonic(), len(entries), _made_ms(entries[0])
        self.entries_logged += count
        self.append_time.add((now - started) * 1000)
        if learned:
            self.entries_received += count
            _add_latency(self.proposal_latency, clock.wall_ms() - made_ms, count)
        self._unsynced.append(_Batch(entries[-1].zxid, count, made_ms, now))

    def durable(self, zxid: int, clock: Clock) -> None:
        """The log is, up to ``zxid``."""
        unsynced, count = self._unsynced, 0
        while unsynced and unsynced[0].zxid <= zxid:
            batch = unsynced.popleft()
            count += batch.count
            self.append_to_durable_time.add((clock.monotonic() - batch.written) * 1000, batch.count)
            _add_latency(self.proposal_ack_latency, clock.wall_ms() - batch.made_ms, batch.count)
        if count:
            self.entries_synced.add(count)

    def acked(self, server_id: int, made_ms: int, clock: Clock) -> None:
        latency_ms = clock.wall_ms() - made_ms
        if latency_ms >= 0:
            self.ack_latency.add(str(server_id), latency_ms)

    def committed(self, count: int, oldest: Entry, started: float, clock: Clock, *, leads: bool) -> None:
        """A commit brought ``count`` entries; they were applied since ``started``."""
        latency_ms = clock.wall_ms() - _made_ms(oldest)
        if leads:
            self.commits += count
            _add_latency(self.quorum_ack_latency, latency_ms, count)
        else:
            self.commits_received += count
            _add_latency(self.commit_latency, latency_ms, count)
        _add_latency(self.propagation_latency, latency_ms, count)
        self.entries_applied.add(count)
        self.apply_time.add((clock.monotonic() - started) * 1000)

    # Roles.

    def elected(self, waited_ms: int) -> None:
        """The search for a leader is over; it may be another server."""
        self._election_ms = waited_ms
        self.election_time.add(waited_ms)
        self._unsynced.clear()

    def serving(self, now_ms: int, waited_ms: int, *, leads: bool, votes: bool) -> None:
        """Clients are let in, ``waited_ms`` after the search for a leader began."""
        self.serving_since_ms = now_ms
        self.unavailable_time.add(waited_ms)
        if leads:
            self.leader_unavailable_time.add(waited_ms)
        else:
            sync_time = self.follower_sync_time if votes else self.observer_sync_time
            sync_time.add(waited_ms - self._election_ms)


class _Batch(NamedTuple):
    """Entries written together."""

    zxid: int
    """Of the last of them."""
    count: int
    made_ms: int
    """When the leader made the first of them."""
    written: float


def namespace_of(path: str) -> str:
    """The first part of a path, by which reads, writes and quotas are told apart."""
    return path.split("/", 2)[1]


_PATH_FIRST = frozenset({OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_ACL, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2})
_PATH_AT = 12


def _path_of(frame: bytes) -> str:
    """The path that a read asks for; empty if there is none, or only the root."""
    if int.from_bytes(frame[4:8], "big") not in _PATH_FIRST:
        return ""
    path = frame[_PATH_AT : _PATH_AT + int.from_bytes(frame[8:_PATH_AT], "big")].decode(errors="replace")
    return path if len(path) > 1 and path[0] == "/" else ""


def _made_ms(entry: Entry) -> int:
    made_ms: int = TXN_HEADER.unpack_from(entry.raw)[3]
    return made_ms


def _add_latency(summary: Summary, latency_ms: int, times: int) -> None:
    """The clocks of two machines may make a latency negative; then it says nothing."""
    if latency_ms >= 0:
        summary.add(latency_ms, times)
