"""The report card: which client did what, and whether it passed, as the tests themselves reported it.

A test with the marker ``card`` is a line of it. What the marker names is known when the tests are collected, so a test
that fails before it begins is on the card as well; the version is what the client said when it was started.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest


@dataclass
class Row:
    """One client on one kind of server: its versions, and by test what it did."""

    versions: set[str] = field(default_factory=set)
    passed: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Card:
    def __init__(self) -> None:
        self.rows: defaultdict[tuple[str, str], Row] = defaultdict(Row)

    def add(self, report: pytest.TestReport) -> None:
        """A test counts once: as passed when it ran, unless something before, in or behind it failed."""
        told = dict(report.user_properties)
        if "client" not in told or not (report.when == "call" or report.failed):
            return
        row = self.rows[str(told["server"]), str(told["client"])]
        did = str(told["did"])
        if "version" in told:
            row.versions.add(str(told["version"]))
        if report.failed:
            row.passed.pop(report.nodeid, None)
            row.failed[report.nodeid] = did
        elif report.passed:
            row.passed[report.nodeid] = did

    def lines(self) -> list[str]:
        shown: list[str] = []
        for server in sorted({server for server, _ in self.rows}, reverse=True):
            shown += ["", f"on {server}"] if shown else [f"on {server}"]
            for name in sorted(name for other, name in self.rows if other == server):
                shown += _row(name, self.rows[server, name])
        return shown


def _row(name: str, row: Row) -> list[str]:
    version = ", ".join(sorted(row.versions)) or "not started"
    verdict = f"{len(row.passed)} passed" + (f", {len(row.failed)} FAILED" if row.failed else "")
    did = ", ".join(
        f"{what} {count}" if count > 1 else what for what, count in sorted(Counter(row.passed.values()).items())
    )
    lines = [f"  {name:<18} {version:<28} {verdict}", f"      {did}"]
    return lines + [f"      FAILED {did}: {test}" for test, did in sorted(row.failed.items())]
