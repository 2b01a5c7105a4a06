from __future__ import annotations
from contextlib import AbstractContextManager
from collections.abc import Callable
MUTANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {}
