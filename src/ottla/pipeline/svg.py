"""Plots as SVG, drawn by hand: lines over time, and bars. Nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape

COLORS = ("#2f6fab", "#c2562d", "#4b8b3b", "#8250a5", "#8a6d1d", "#3a8f8f")
_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 14, 26
_BAR = 22

Points = Sequence[tuple[int, float]]
"""Milliseconds, and the value then; in order."""


def lines(series: Mapping[str, Points], unit: str = "") -> str:
    """One line for each series, over one axis of time."""
    times = [at for points in series.values() for at, _ in points]
    if not times:
        return "<p>Nothing happened.</p>"
    first, last = min(times), max(*times, min(times) + 1)
    most = max(value for points in series.values() for _, value in points) or 1.0
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(at: int, value: float) -> str:
        return f"{_LEFT + wide * (at - first) / (last - first):.1f},{_TOP + high * (1 - value / most):.1f}"

    parts = []
    for part in (0, 0.5, 1):
        y = _TOP + high * (1 - part)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="right">{_short(most * part)}{escape(unit)}</text>')
    for part, anchor in ((0.0, "left"), (0.5, "middle"), (1.0, "right")):
        at = first + int((last - first) * part)
        x = _LEFT + wide * part
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 8}" class="{anchor}">{_clock(at)}</text>')
    for number, (name, points) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        path = " ".join(place(at, value) for at, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        if len(series) > 1:
            parts.append(f'<text x="{_LEFT + 8 + 110 * number}" y="11" fill="{color}">{escape(name)}</text>')
    return _svg(_HEIGHT, parts)


def bars(values: Mapping[str, float], unit: str = "") -> str:
    """One bar for each name, in the order they are given."""
    if not values:
        return "<p>Nothing happened.</p>"
    most = max(values.values()) or 1.0
    left, room = 150, _WIDTH - 150 - 80
    parts = []
    for number, (name, value) in enumerate(values.items()):
        y = number * _BAR
        length = room * value / most
        parts.append(f'<text x="{left - 8}" y="{y + 15}" class="right">{escape(name)}</text>')
        parts.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{_BAR - 6}" fill="{COLORS[0]}"/>')
        parts.append(f'<text x="{left + length + 6:.1f}" y="{y + 15}">{_short(value)}{escape(unit)}</text>')
    return _svg(len(values) * _BAR + 4, parts)


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">{"".join(parts)}</svg>'


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M")
