"""CRC-32C, which Kafka's batches and many of our own files carry. ``fastcrc`` calls it by the name of its first standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from fastcrc.crc32 import iscsi

Crc32c = Callable[..., int]
"""Called with bytes, or a view of them, and the checksum of what comes before, if anything does."""

crc32c: Final = cast("Crc32c", iscsi)
