"""The machine that is measured on, made the same for everybody just before.

*Memory.* A virtual machine may give free memory back to its host (free page reporting of virtio's balloon), and then a page costs
whoever takes it first up to 10 µs where 1.4 µs are usual. Everything that is sent to a broker goes into pages: with 16 KB over four
connections, that was two thirds of a broker's processor time, or nothing, as it happened (docs/performance.md).

*Writing back.* Once a tenth of memory was written and is not on disk yet, the kernel writes it, while somebody else is measured.
"""

from __future__ import annotations

import mmap
import os

TOUCHED_BYTES = 2 << 30
"""More than any part of the load sends."""


def settle() -> None:
    """Put on disk what was written before, and see to it that the memory that is taken next is there."""
    os.sync()
    touched = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, TOUCHED_BYTES, flags=touched).close()
