"""What every message class is: slots with the values of its fields, and no behavior.

A class stands for all versions of its message. A field that a version does not carry holds its default, as in Kafka's
own classes. Two things differ from those, because they read better and cost less in Python:

- A tagged structure that is absent is None, not a structure full of defaults.
- A uuid is its 16 bytes; ``ZERO_UUID`` is the one that stands for none.

Fields of type ``records`` are bytes, or views into the frame they were decoded from that keep it alive: copy what is to
last. Those of a response that is to be sent may still lie in a file.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeAlias

from mypy_extensions import mypyc_attr

from ottla.base.filebytes import FileBytes

Buffer: TypeAlias = bytes | bytearray | memoryview
Part: TypeAlias = bytes | bytearray | memoryview | FileBytes
"""Of a frame that is sent."""


def in_memory(part: Part) -> Buffer:
    return part.read() if isinstance(part, FileBytes) else part


ZERO_UUID: Final = bytes(16)

EMPTY: Final[list[Any]] = []
"""Stands for an array that was not given, where None would mean null. Never kept, so nobody can add to it."""


@mypyc_attr(allow_interpreted_subclasses=True)  # only the messages on the path of records are compiled
class Message:  # noqa: PLW1641  # what can be changed has no hash
    __slots__: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
