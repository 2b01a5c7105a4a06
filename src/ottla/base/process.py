"""What the operating system says about this process. None where it cannot be asked, as on systems without /proc."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

_PROC = Path("/proc/self")
_START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 19, 20, 21
"""Fields of /proc/self/stat, counted from the one behind the name in parentheses."""


def open_files() -> int | None:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return sum(1 for _ in Path(folder).iterdir()) - 1  # listing opens one more
        except OSError:
            continue
    return None


def disk_bytes() -> tuple[int, int] | None:
    """Read from disks and written to them, whoever else has them in memory."""
    try:
        lines = (_PROC / "io").read_text().splitlines()
    except OSError:
        return None
    counts = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
    return counts["read_bytes"], counts["write_bytes"]


def max_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def cpu_seconds() -> float:
    return time.process_time()


def start_seconds() -> float | None:
    """When the process began, in seconds since 1970."""
    ticks = _stat(_START_TICKS)
    if ticks is None:
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def virtual_bytes() -> int | None:
    return _stat(_VIRTUAL_BYTES)


def resident_bytes() -> int | None:
    pages = _stat(_RESIDENT_PAGES)
    return None if pages is None else pages * resource.getpagesize()


def _stat(field: int) -> int | None:
    try:
        text = (_PROC / "stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[field])
