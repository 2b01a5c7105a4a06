"""The kinds of metrics, and how one is declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from ottla.keeper.monitored import Monitored, mode_of
from ottla.keeper.quorum.leading import Learner
from ottla.keeper.roles import LeaderUpstream
from ottla.keeper.server.stats import Stats, Summary
from ottla.keeper.server.tree import DataTree

Number = int | float


class View:
    """One server, as the readers of metrics see it."""

    def __init__(self, server: Monitored) -> None:
        self.server = server
        self.stats: Stats = server.member.stats
        self.tree: DataTree = server.member.frontend.tree
        upstream = server.member.frontend.upstream
        self.leader = upstream if isinstance(upstream, LeaderUpstream) else None
        self.now_ms = int(server.clock.monotonic() * 1000)

    @cached_property
    def mode(self) -> str:
        return mode_of(self.server)

    @cached_property
    def latency(self) -> Summary:
        return self.stats.latency

    @cached_property
    def learners(self) -> list[Learner]:
        return self.leader.leading.learners if self.leader is not None else []


class Kind(Enum):
    """In the order in which ``mntr`` lists them. The value is Prometheus's type."""

    GAUGE = ("gauge", 0)
    GAUGE_SET = ("gauge", 1)
    COUNTER = ("counter", 2)
    COUNTER_SET = ("counter", 3)
    SUMMARY = ("summary", 4)
    DETAILED_SUMMARY = ("summary", 5)
    SUMMARY_SET = ("summary", 6)
    DETAILED_SUMMARY_SET = ("summary", 7)


class Basis(Enum):
    """How far a value can be relied on."""

    EXACT = "exact"
    ESTIMATED = "estimated"
    NOTHING = "always 0"


Value = Number | Summary | Mapping[str, Number] | Mapping[str, Summary] | None


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. A gauge that is None has no meaning now: ``mntr`` leaves it out, Prometheus is told 0."""

    name: str
    kind: Kind
    doc: str
    read: Callable[[View], Value]
    basis: Basis = Basis.EXACT
    modes: frozenset[str] = frozenset()
    """Who has it; empty for everybody."""
    in_mntr: bool = True

    def is_shown(self, view: View) -> bool:
        return not self.modes or view.mode in self.modes
