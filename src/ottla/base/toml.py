"""Files of TOML, table by table: everything known is taken out, and what is left is a mistake that is told by its name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ottla.base.errors import ConfigError

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)")


def load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


class Section:
    def __init__(self, path: str, given: Mapping[str, Any]) -> None:
        self._path = path
        self.left = dict(given)

    def section(self, name: str) -> Section:
        return Section(self.at(name), self._take(name, dict, {}))

    def text(self, name: str, default: str) -> str:
        found: str = self._take(name, str, default)
        return found

    def number(self, name: str, default: int, *, least: int, most: int | None = None) -> int:
        found: int = self._take(name, int, default)
        if found < least:
            raise ConfigError(f"{self.at(name)}: {found} is less than {least}")
        if most is not None and found > most:
            raise ConfigError(f"{self.at(name)}: {found} is more than {most}")
        return found

    def names(self, name: str) -> tuple[str, ...]:
        found = self._take(name, list, [])
        if not all(isinstance(one, str) for one in found):
            raise ConfigError(f"{self.at(name)}: all of it has to be text")
        return tuple(found)

    def texts(self, name: str) -> dict[str, str]:
        found = self._take(name, dict, {})
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()}

    def duration(self, name: str, default: timedelta) -> timedelta:
        text = self.text(name, "")
        if not text:
            return default
        found = _DURATION.fullmatch(text.strip())
        if found is None:
            raise ConfigError(f"{self.at(name)}: {text} is no time; give 30s, 10m, 2h")
        return timedelta(**{_UNITS[found[2]]: int(found[1])})

    def flag(self, name: str, *, default: bool) -> bool:
        found: bool = self._take(name, bool, default)
        return found

    def choice(self, name: str, among: Sequence[str], default: str) -> str:
        found = self.text(name, default)
        if found not in among:
            raise ConfigError(f"{self.at(name)}: {found}; give {', '.join(among[:-1])} or {among[-1]}")
        return found

    def sections(self, name: str) -> list[Section]:
        """Tables of the same name, ``[[name]]``."""
        found = self._take(name, list, [])
        if not all(isinstance(one, dict) for one in found):
            raise ConfigError(f"{self.at(name)}: write each as [[{self.at(name)}]]")
        return [Section(f"{self.at(name)}[{number}]", one) for number, one in enumerate(found, start=1)]

    def done(self) -> None:
        if self.left:
            raise ConfigError(f"there is no setting {self.at(next(iter(self.left)))}")

    def _take(self, name: str, kind: type, default: Any) -> Any:
        found = self.left.pop(name, default)
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise ConfigError(f"{self.at(name)}: {found!r} has to be {_NAMES[kind]}")
        return found

    def at(self, name: str) -> str:
        """How a key is called in what is told."""
        return f"{self._path}.{name}" if self._path else name


_NAMES = {dict: "a table", str: "text", int: "a number", list: "a list", bool: "true or false"}
