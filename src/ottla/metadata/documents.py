"""The JSON inside znodes: written as Kafka's Jackson writes it, read with the path in every complaint.

Kafka ignores members that it does not know and so do we; a member that is missing or of the wrong type is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.metadata.errors import ZnodeError

_LOWER_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u00[01][0-9a-f]")


def encode(value: object) -> bytes:
    """Compact JSON in UTF-8, members in the order they are given."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u00" in text:  # Jackson spells control characters with capital digits
        text = _LOWER_ESCAPE.sub(lambda match: match[0][:-2] + match[0][-2:].upper(), text)
    return text.encode("utf-8", "surrogatepass")


class Document:
    """A JSON object that knows which znode it came from."""

    __slots__ = ("path", "values")

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = values

    @classmethod
    def parse(cls, path: str, data: bytes | None) -> Document:
        """Read a znode that has to hold a JSON object."""
        if not data:
            raise ZnodeError(f"{path}: is empty where a JSON object is expected")
        try:
            values = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ZnodeError(f"{path}: is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise ZnodeError(f"{path}: must hold a JSON object, and holds {_shown(values)}")
        return cls(path, values)

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def version(self, *known: int) -> int:
        """The version of the format, which must be one of ``known``; some znodes spell it as text."""
        written = self.values.get("version")
        if isinstance(written, str) and written.isdecimal():
            written = int(written)
        if type(written) is not int or written not in known:
            accepted = ", ".join(map(str, known))
            raise ZnodeError(f"{self.path}: version {_shown(written)} is not one of those that are known: {accepted}")
        return written

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if type(value) is not int:
            raise self._wrong(key, value, "a whole number")
        return value

    def digits(self, key: str) -> int:
        """A number that Kafka writes as text, since JSON has no 64-bit integers."""
        value = self.values.get(key)
        if isinstance(value, str) and value.removeprefix("-").isdecimal():
            value = int(value)
        if type(value) is not int:
            raise self._wrong(key, value, "a whole number as text")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "text")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        return self._integers(key, self.values.get(key))

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise self._wrong(key, value, "a list of texts")

    def document(self, key: str) -> Document:
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self._wrong(key, value, "an object")
        return Document(self.path, value)

    def documents(self, key: str) -> tuple[Document, ...]:
        value = self.values.get(key)
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return tuple(Document(self.path, item) for item in value)
        raise self._wrong(key, value, "a list of objects")

    def text_members(self, key: str) -> dict[str, str]:
        """An object whose members are all text."""
        members = self.document(key)
        return {name: members.text(name) for name in members.values}

    def replica_lists(self, key: str) -> dict[int, tuple[int, ...]]:
        """An object from partition numbers to broker ids."""
        members = self.document(key)
        lists: dict[int, tuple[int, ...]] = {}
        for name, value in members.values.items():
            if not name.isdecimal():
                raise ZnodeError(f"{self.path}: {key} has a member {name!r}, which is no partition")
            lists[int(name)] = self._integers(f"{key}.{name}", value)
        return lists

    def _integers(self, key: str, value: object) -> tuple[int, ...]:
        if isinstance(value, list) and all(type(item) is int for item in value):
            return tuple(value)
        raise self._wrong(key, value, "a list of whole numbers")

    def _wrong(self, key: str, value: object, wanted: str) -> ZnodeError:
        return ZnodeError(f"{self.path}: {key} must be {wanted}, and is {_shown(value)}")


def number(path: str, data: bytes | None) -> int:
    """Read a znode that holds nothing but a number in decimal."""
    try:
        return int((data or b"").decode("ascii"))
    except ValueError:
        raise ZnodeError(f"{path}: must hold a whole number, and holds {_shown(data)}") from None


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
