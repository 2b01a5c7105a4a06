"""Metrics in Prometheus form."""

from __future__ import annotations

from ottla.keeper.monitored import Monitored


def render(server: Monitored) -> str:
    return f"# TYPE uptime gauge\nuptime {int(server.clock.monotonic() * 1000) - server.started_ms}\n"
