"""The metrics as text: Prometheus's exposition format, and ZooKeeper's ``mntr``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.keeper.metrics.kinds import Kind, Metric, Number, Value, View
from ottla.keeper.metrics.table import METRICS
from ottla.keeper.monitored import Monitored
from ottla.keeper.server.stats import Summary

BASIC_QUANTILES = (0.5,)
QUANTILES = (0.5, 0.9, 0.99)
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_DETAILED = frozenset({Kind.DETAILED_SUMMARY, Kind.DETAILED_SUMMARY_SET})


def render(server: Monitored) -> str:
    """All metrics, in Prometheus's text format."""
    view = View(server)
    lines: list[str] = []
    for metric in METRICS:
        if metric.is_shown(view):
            lines.append(f"# HELP {metric.name} {_escaped(metric.doc)}")
            lines.append(f"# TYPE {metric.name} {metric.kind.value[0]}")
            lines += _samples(metric, metric.read(view))
    return "\n".join(lines) + "\n"


def _samples(metric: Metric, value: Value) -> Iterator[str]:
    name, quantiles = metric.name, QUANTILES if metric.kind in _DETAILED else BASIC_QUANTILES
    if isinstance(value, Mapping):
        for key, one in value.items():
            label = f'key="{_escaped(key)}"'
            if isinstance(one, Summary):
                yield from _summary(name, one, quantiles, label)
            else:
                yield f"{name}{{{label}}} {float(one)}"
    elif isinstance(value, Summary):
        yield from _summary(name, value, quantiles)
    else:
        yield f"{name} {float(value or 0)}"


def _summary(name: str, summary: Summary, quantiles: tuple[float, ...], label: str = "") -> Iterator[str]:
    for share, value in zip(quantiles, summary.quantiles(quantiles), strict=True):
        labels = ",".join(filter(None, (label, f'quantile="{share}"')))
        yield f"{name}{{{labels}}} {'NaN' if value is None else float(value)}"
    labels = f"{{{label}}}" if label else ""
    yield f"{name}_count{labels} {float(summary.count)}"
    yield f"{name}_sum{labels} {summary.total}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def monitor(server: Monitored) -> Iterator[tuple[str, Number]]:
    """All metrics as ``mntr`` names them, without its ``zk_``."""
    view = View(server)
    for metric in sorted(METRICS, key=lambda metric: metric.kind.value[1]):
        if metric.in_mntr and metric.is_shown(view):
            yield from _entries(metric, metric.read(view))


def _entries(metric: Metric, value: Value) -> Iterator[tuple[str, Number]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _entry(f"{key}_{metric.name}", one, detailed=metric.kind in _DETAILED)
    elif value is not None:
        yield from _entry(metric.name, value, detailed=metric.kind in _DETAILED)


def _entry(name: str, value: Number | Summary, *, detailed: bool) -> Iterator[tuple[str, Number]]:
    if not isinstance(value, Summary):
        yield name, value
        return
    yield f"avg_{name}", round(value.average, 4)
    yield f"min_{name}", round(value.min)
    yield f"max_{name}", round(value.max)
    yield f"cnt_{name}", value.count
    yield f"sum_{name}", round(value.total)
    if detailed:
        for prefix, one in zip(PERCENTILES, value.quantiles(list(PERCENTILES.values())), strict=True):
            yield f"{prefix}_{name}", round(one or 0)
