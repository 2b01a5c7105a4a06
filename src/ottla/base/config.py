"""Settings, declared once.

A component's configuration is a frozen, slotted, keyword-only dataclass whose fields are made by the functions of this
module, one line each:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LogConfig:
        segment_bytes: int = integer("log.segment.bytes", 1 << 30, at_least=14, doc="Size at which a segment rolls.")

That line is all there is to say: ``parse`` reads it from text, ``check`` holds values given from Python to the same
bounds, every ConfigError quotes it, and ``markdown`` and ``plain`` turn it into documentation. Keys are spelled as the
system that is being matched spells them, and so are booleans and lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from ottla.base.errors import ConfigError

_METADATA: Final = "ottla.key"
_LIMITS: Final = {"int": 2**31 - 1, "long": 2**63 - 1, "double": float("inf")}
_TRUE_FALSE: Final = ("true", "false")
_YES_NO: Final = ("yes", "no")


class Kind(Enum):
    """How the text of a value is read. The values are the words that the documentation shows."""

    INT = "int"
    LONG = "long"
    FLOAT = "double"
    BOOL = "boolean"
    STR = "string"
    LIST = "list"
    ENUM = "enum"
    PATH = "path"


class Key(NamedTuple):
    """One setting: everything about it except its value."""

    name: str
    kind: Kind
    doc: str
    default: Any = MISSING
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    dynamic: bool = False
    secret: bool = False
    shown_default: str = ""

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def parse(self, text: str) -> object:
        """The value that ``text`` stands for, or a ConfigError that says what would do."""
        text = text.strip()
        value = self._read(text)
        if value is None or not self._allows(value):
            raise self.error(text)
        return value

    def check(self, value: object) -> None:
        """Hold a value given from Python to the same bounds as one read from text."""
        if not self._allows(value):
            raise self.error(value)

    def error(self, value: object) -> ConfigError:
        """What to raise for a value that cannot be."""
        shown = "(hidden)" if self.secret else value
        return ConfigError(f"{self.name}={shown}: must be {self.allowed()}")

    def allowed(self) -> str:
        """What a value may be, as the second half of a sentence."""
        match self.kind:
            case Kind.INT | Kind.LONG:
                return "a whole number" + self._range()
            case Kind.FLOAT:
                return "a number" + self._range()
            case Kind.BOOL:
                return " or ".join(self.choices)
            case Kind.ENUM:
                return "one of " + ", ".join(self.choices)
            case Kind.LIST:
                return "a comma-separated list" + (" of " + ", ".join(self.choices) if self.choices else "")
            case Kind.STR:
                return "text"
            case Kind.PATH:
                return "a path"

    def _range(self) -> str:
        match self.low, self.high:
            case None, None:
                return ""
            case low, None:
                return f" of at least {low}"
            case None, high:
                return f" of at most {high}"
            case low, high:
                return f" from {low} to {high}"

    def _read(self, text: str) -> object:
        """The value without its bounds, or None if the text is of the wrong kind."""
        match self.kind:
            case Kind.INT | Kind.LONG:
                return _number(lambda digits: int(digits, 16 if digits[:2].lower() == "0x" else 10), text)
            case Kind.FLOAT:
                return _number(float, text)
            case Kind.BOOL:
                return {"true": True, self.choices[0]: True, "false": False, self.choices[1]: False}.get(text.lower())
            case Kind.LIST:
                return tuple(item.strip() for item in text.split(",") if item.strip())
            case Kind.STR:
                return text
            case Kind.ENUM:
                return text.lower()
            case Kind.PATH:
                return Path(text) if text else None

    def _allows(self, value: object) -> bool:
        # The default may lie outside the bounds, and then means that nothing was chosen.
        if value == self.default:
            return True
        match self.kind:
            case Kind.INT | Kind.LONG | Kind.FLOAT:
                most = _LIMITS[self.kind.value]
                low = -most - 1 if self.low is None else self.low
                high = most if self.high is None else self.high
                return low <= cast("float", value) <= high
            case Kind.ENUM:
                return value in self.choices
            case Kind.LIST:
                return not self.choices or all(item in self.choices for item in cast("Iterable[str]", value))
            case Kind.BOOL | Kind.STR | Kind.PATH:
                return True


def _number(convert: Callable[[str], float], text: str) -> float | None:
    # Python reads "1_000" as a number; the systems whose files we read do not.
    try:
        return None if "_" in text else convert(text)
    except ValueError:
        return None


def _declare(key: Key) -> Any:
    metadata = {_METADATA: key}
    if key.required:
        return field(metadata=metadata)
    return field(default=key.default, metadata=metadata, repr=not key.secret)


def integer(
    name: str,
    default: int,
    *,
    doc: str,
    at_least: int | None = None,
    at_most: int | None = None,
    wide: bool = False,
    aliases: tuple[str, ...] = (),
    dynamic: bool = False,
    shown_default: str = "",
) -> int:
    """Declare a whole number: Java's int, or its long if ``wide``. The default may lie outside the bounds."""
    key = Key(
        name=name,
        kind=Kind.LONG if wide else Kind.INT,
        doc=doc,
        default=default,
        low=at_least,
        high=at_most,
        aliases=aliases,
        dynamic=dynamic,
        shown_default=shown_default,
    )
    return cast("int", _declare(key))


def number(
    name: str,
    default: float,
    *,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    dynamic: bool = False,
) -> float:
    """Declare a number with a fraction."""
    key = Key(name=name, kind=Kind.FLOAT, doc=doc, default=default, low=at_least, high=at_most, dynamic=dynamic)
    return cast("float", _declare(key))


def boolean(
    name: str,
    *,
    default: bool,
    doc: str,
    yes_no: bool = False,
    aliases: tuple[str, ...] = (),
    dynamic: bool = False,
) -> bool:
    """Declare a switch, true or false in any case of letters; ``yes_no`` adds those two words."""
    words = _YES_NO if yes_no else _TRUE_FALSE
    key = Key(name=name, kind=Kind.BOOL, doc=doc, default=default, choices=words, aliases=aliases, dynamic=dynamic)
    return cast("bool", _declare(key))


def text(
    name: str,
    default: str = "",
    *,
    doc: str,
    aliases: tuple[str, ...] = (),
    dynamic: bool = False,
    secret: bool = False,
    shown_default: str = "",
) -> str:
    """Declare any text. A secret one is never repeated in a message."""
    key = Key(
        name=name,
        kind=Kind.STR,
        doc=doc,
        default=default,
        aliases=aliases,
        dynamic=dynamic,
        secret=secret,
        shown_default=shown_default,
    )
    return cast("str", _declare(key))


def listing(
    name: str, default: tuple[str, ...] = (), *, doc: str, choices: tuple[str, ...] = (), dynamic: bool = False
) -> tuple[str, ...]:
    """Declare words separated by commas."""
    key = Key(name=name, kind=Kind.LIST, doc=doc, default=default, choices=choices, dynamic=dynamic)
    return cast("tuple[str, ...]", _declare(key))


def choice(name: str, *choices: str, default: str, doc: str, dynamic: bool = False) -> str:
    """Declare one word out of a few, in any case of letters."""
    key = Key(name=name, kind=Kind.ENUM, doc=doc, default=default, choices=choices, dynamic=dynamic)
    return cast("str", _declare(key))


def path(name: str, *, doc: str, derived_from: str = "") -> Path:
    """Declare a file or folder: required, or None until ``__post_init__`` derives it from another key."""
    default = None if derived_from else MISSING
    key = Key(name=name, kind=Kind.PATH, doc=doc, default=default, shown_default=derived_from)
    return cast("Path", _declare(key))


def keys(config: type) -> Iterator[tuple[str, Key]]:
    """The declared settings of a configuration class, each with the name of its attribute, in order."""
    for declared in fields(config):
        if _METADATA in declared.metadata:
            yield declared.name, declared.metadata[_METADATA]


class Parsed(NamedTuple):
    """What ``parse`` found: arguments for the class, and the properties that no field of it declares."""

    values: dict[str, Any]
    unknown: dict[str, str]


def parse(config: type, properties: Mapping[str, str]) -> Parsed:
    """Read the settings of ``config`` out of ``properties``. A missing one that is required is a ConfigError."""
    unread = dict(properties)
    values: dict[str, Any] = {}
    for attribute, key in keys(config):
        given = {name: unread.pop(name) for name in (key.name, *key.aliases) if name in unread}
        if len({value.strip() for value in given.values()}) > 1:
            raise ConfigError(f"{' and '.join(given)}: one setting under two names with two values; keep one of them")
        if given:
            values[attribute] = key.parse(next(iter(given.values())))
        elif key.required:
            raise ConfigError(f"{key.name} is not set: must be {key.allowed()}. {key.doc}")
    return Parsed(values, unread)


def check(config: object) -> None:
    """Hold every field to its bounds; for ``__post_init__``, so that no instance exists with impossible values."""
    for attribute, key in keys(type(config)):
        key.check(getattr(config, attribute))


def markdown(config: type) -> str:
    """The settings as a Markdown table, one row each."""
    rows = ["| Key | Type | Default | Allowed | Meaning |", "|---|---|---|---|---|"]
    for _, key in keys(config):
        names = ", ".join(f"`{name}`" for name in (key.name, *key.aliases))
        meaning = key.doc + (" May be changed while running." if key.dynamic else "")
        rows.append(f"| {names} | {key.kind.value} | {shown_default(key)} | {key.allowed()} | {meaning} |")
    return "\n".join(rows) + "\n"


def plain(config: type) -> str:
    """The settings for a terminal, two lines each."""
    return "".join(f"{key.name}={shown_default(key)}   ({key.allowed()})\n    {key.doc}\n" for _, key in keys(config))


def shown_default(key: Key) -> str:
    """The default in the words of the configuration file."""
    if key.required:
        return "required"
    if key.shown_default:
        return key.shown_default
    match key.default:
        case bool() as flag:
            return key.choices[0 if flag else 1]
        case tuple() as items:
            return ",".join(items) or "none"
        case other:
            return str(other) or "none"
