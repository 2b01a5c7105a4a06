"""Many reads in one request: ZooKeeper's multiRead (since 3.6), which kazoo does not have.

    request     { opcode int · done bool=0 · error int=-1 · path string · watch bool=0 } … · END
    answer      { opcode int · done bool=0 · error int · body } … · END
                body of getData: buffer, stat · of getChildren: strings · of an error (opcode -1): its code
    END         -1 int · 1 bool · -1 int

kazoo sends anything that has a ``type``, ``serialize`` and ``deserialize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, ClassVar, Final

from ottla.registry.store import Stat, Znode

GET_DATA: Final = 4
GET_CHILDREN: Final = 8
_ERROR: Final = -1
_NO_NODE: Final = -101
_HEADER: Final = Struct("!i?i")
_INT: Final = Struct("!i")
_STAT: Final = Struct("!qqqqiiiqiiq")

Answer = Znode | tuple[str, ...] | None


class RefusedReadError(Exception):
    """A read of many that failed for another reason than a missing node."""


class MultiRead:
    """Reads of one kind, answered in order: a Znode or names each, None where there is no node."""

    type: ClassVar = 22
    __slots__ = ("opcode", "paths")

    def __init__(self, opcode: int, paths: Sequence[str]) -> None:
        self.opcode = opcode
        self.paths = paths

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        header = _HEADER.pack(self.opcode, False, -1)
        for path in self.paths:
            encoded = path.encode()
            parts += (header, _INT.pack(len(encoded)), encoded, b"\0")
        parts.append(_HEADER.pack(-1, True, -1))
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[Answer]:
        answers: list[Answer] = []
        while True:
            opcode, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return answers
            if opcode == _ERROR:
                (code,) = _INT.unpack_from(buffer, offset)
                offset += _INT.size
                if code != _NO_NODE:
                    raise RefusedReadError(f"error {code}")
                answers.append(None)
            elif opcode == GET_DATA:
                data, offset = _buffer(buffer, offset)
                answers.append(Znode(data, _stat(_STAT.unpack_from(buffer, offset))))
                offset += _STAT.size
            else:
                names, offset = _strings(buffer, offset)
                answers.append(names)


def _buffer(buffer: bytes, offset: int) -> tuple[bytes, int]:
    (length,) = _INT.unpack_from(buffer, offset)
    start = offset + _INT.size
    end = start + max(length, 0)
    return bytes(buffer[start:end]), end


def _strings(buffer: bytes, offset: int) -> tuple[tuple[str, ...], int]:
    (count,) = _INT.unpack_from(buffer, offset)
    offset += _INT.size
    names: list[str] = []
    for _ in range(count):
        name, offset = _buffer(buffer, offset)
        names.append(name.decode())
    return tuple(sorted(names)), offset


def _stat(fields: tuple[Any, ...]) -> Stat:
    czxid, mzxid, ctime, _, version, _, _, owner, _, _, pzxid = fields
    return Stat(czxid, mzxid, pzxid, version, owner, ctime)
