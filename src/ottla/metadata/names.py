"""Which names topics may have.

Metrics replace ``.`` by ``_``, so two names that differ only in these two characters may not exist side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ottla.metadata.errors import InvalidTopicError

NAME_LENGTH_MAX: Final = 249
"""A partition's folder is the name, a dash, a number, and perhaps a suffix of deletion: 255 in all."""
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise the reason why ``name`` cannot be the name of a topic."""
    if not name:
        raise InvalidTopicError("the empty string is not allowed")
    if name in {".", ".."}:
        raise InvalidTopicError("'.' or '..' is not allowed")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicError(f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )


def check_topic_collision(name: str, existing: Iterable[str]) -> None:
    """Raise if ``name`` could not be told from another topic's name in metrics."""
    if not has_collision_chars(name):
        return
    unified = unify_collision_chars(name)
    others = sorted(other for other in existing if other != name and unify_collision_chars(other) == unified)
    if others:
        raise InvalidTopicError(f"Topic '{name}' collides with existing topics: {', '.join(others)}")


def has_collision_chars(name: str) -> bool:
    return "." in name or "_" in name


def unify_collision_chars(name: str) -> str:
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether brokers keep their own state in this topic."""
    return name in INTERNAL_TOPICS
