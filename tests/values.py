"""Values with something else in them, for tests that tell a story slightly wrong."""

from __future__ import annotations

from typing import Any, TypeVar

from ottla.keeper.proto.values import Value

V = TypeVar("V", bound=Value)


def replaced(value: V, **changes: Any) -> V:
    return type(value)(*[changes.get(name, getattr(value, name)) for name in value._fields])
