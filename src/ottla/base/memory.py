"""How a server's process uses memory, once it has started.

*Garbage.* Requests make no cycles, so a look at the youngest after every 700 objects finds nothing, and a large request makes
a quarter of a million. Connections and tasks do make some, and wait a little longer for their end.

*Large blocks.* A frame of a megabyte is received, used and freed, over and over. By default the C library gives such blocks
back to the kernel at once and takes them again, page by page, which costs more than all that is done with them. What is
free at the end of the heap is therefore kept, up to ``KEPT_BYTES``.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from typing import Final

THRESHOLDS: Final = (50_000, 20, 100)
KEPT_BYTES: Final = 32 << 20
OWN_MAPPING_BYTES: Final = 16 << 20
"""Blocks from this size on are rare, and go back to the kernel as a whole."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def settle() -> None:
    """A server has started: its modules and what it read from disk stay, and need not be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    with suppress(AttributeError, OSError):  # other C libraries have no such settings
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(_M_MMAP_THRESHOLD, OWN_MAPPING_BYTES)
