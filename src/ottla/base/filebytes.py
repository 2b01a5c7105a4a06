"""Bytes that lie in a file and are on their way to somebody: whoever passes them on need not have them in memory."""

from __future__ import annotations

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class FileBytes:
    """``length`` bytes of an open file, from ``position`` on. What they are is certain only in the turn in which they were found."""

    __slots__ = ("length", "position")

    def __init__(self, position: int, length: int) -> None:
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    @property
    def fd(self) -> int:
        raise NotImplementedError

    def read(self, skip: int = 0) -> bytes:
        """All but the first ``skip`` bytes; fewer only if the file was cut meanwhile. Raises ``OSError``."""
        raise NotImplementedError
