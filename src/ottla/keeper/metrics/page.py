"""The page about metrics in ``docs/``, made from the table."""

from __future__ import annotations

from ottla.keeper.metrics.kinds import Basis, Kind, Metric
from ottla.keeper.metrics.table import ENSEMBLE, METRICS
from ottla.keeper.server.stats import BATCH_MASK, KEYS_MAX, RECENT, SAMPLE_MASK, SAMPLED_WHOLLY

_PAGE = """\
# The keeper's metrics

Made from `src/ottla/keeper/metrics/table.py`; edit that file, not this page.

The names, types and labels are those of ZooKeeper 3.9.5. They are shown in two forms:

- `GET /metrics` on `metricsProvider.httpPort`, for Prometheus. Summaries have the quantiles 0.5, 0.9 and 0.99, or only
  0.5 where they are marked "basic". Sets have the label `key`.
- The four-letter word `mntr`, if `4lw.commands.whitelist` allows it, with `zk_` in front of every name. A summary is
  `avg_`, `min_`, `max_`, `cnt_` and `sum_`, and unless it is basic `p50_`, `p95_`, `p99_` and `p999_`; a set has the key
  in front of the name. `zk_version`, `zk_server_state`, and in an ensemble `zk_peer_state`, come first.

Times are milliseconds unless the name says otherwise. Quantiles are of the last {recent} values. `srst` sets all counters and
summaries back to 0. The metrics of the JVM, `jvm_*`, do not exist, except for the one that is ZooKeeper's own.

## Measured

*Estimated* means one of three things, none of which concerns how many there were: that is exact. Reads and the sizes of
writes are too many to be measured one by one: the first {wholly} are, then every {every}th. Transactions that travel together
are measured once, by the oldest of them: the first {wholly} batches are, then every {batches}th. And latencies that begin on the
leader and end elsewhere compare two wall clocks, as in ZooKeeper. Sets know at most {keys} keys, and the number of
reads and writes by namespace is an estimate too.

| Name | Type | Value | What it says |
| --- | --- | --- | --- |
{measured}
## Always 0

Most of these are of parts of ZooKeeper that have no counterpart here. They are there so that no dashboard lacks them.

{nothing}"""


def page() -> str:
    nothing: dict[str, list[str]] = {}
    for metric in METRICS:
        if metric.basis is Basis.NOTHING:
            nothing.setdefault(metric.doc, []).append(f"`{metric.name}`")
    return _PAGE.format(
        recent=RECENT,
        wholly=SAMPLED_WHOLLY,
        every=SAMPLE_MASK + 1,
        batches=BATCH_MASK + 1,
        keys=KEYS_MAX,
        measured="".join(_row(metric) for metric in METRICS if metric.basis is not Basis.NOTHING),
        nothing="".join(f"- {reason} {', '.join(names)}\n" for reason, names in nothing.items()),
    )


_TYPES = {
    Kind.GAUGE: "gauge",
    Kind.GAUGE_SET: "gauge, set",
    Kind.COUNTER: "counter",
    Kind.COUNTER_SET: "counter, set",
    Kind.SUMMARY: "summary, basic",
    Kind.DETAILED_SUMMARY: "summary",
    Kind.SUMMARY_SET: "summary, basic, set",
    Kind.DETAILED_SUMMARY_SET: "summary, set",
}


def _row(metric: Metric) -> str:
    return f"| `{metric.name}` | {_TYPES[metric.kind]} | {metric.basis.value} | {metric.doc}{_where(metric)} |\n"


def _where(metric: Metric) -> str:
    if metric.modes == ENSEMBLE:
        return " Only in an ensemble."
    if metric.modes:
        return f" Only on a {' or a '.join(sorted(metric.modes, reverse=True))}."
    return "" if metric.in_mntr else " Only for Prometheus."
