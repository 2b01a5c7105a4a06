"""What a setting is: its name, type, default, bounds, and who may change it when.

``ottla.base.config`` declares the settings of one component as fields of a class. Kafka's settings are different in
kind: brokers must know all of them by name, also those they only pass on, a value may be unset (null), and DescribeConfigs
tells clients type, source and synonyms. So they are a table, and a component picks its own from it.

Values are Python's: int, float, bool, str, a tuple of str, or None. The texts of errors are Kafka's, since clients show
them to people who look them up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, IntEnum
from math import isfinite, isnan
from typing import Final, NamedTuple

from ottla.metadata.errors import InvalidConfigError

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308

Value = int | float | bool | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """Numbered as DescribeConfigs numbers them. ``UNKNOWN`` is that of a setting that is in no table."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, the strongest first; numbered as DescribeConfigs numbers them."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class DynamicMode(Enum):
    """Whether a broker's setting can be changed while it runs, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Shape(Enum):
    """A rule for texts that neither bounds nor choices express."""

    ANY = ""
    NON_EMPTY = "non-empty string"
    RELEASE = "a version of the protocol between brokers, or a release"
    THROTTLED_REPLICAS = (
        "the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


class Synonym(NamedTuple):
    """A broker's setting that a topic's takes its default from; ``factor`` of its units make one of the topic's."""

    name: str
    factor: int = 1


class ConfigKey(NamedTuple):
    """One setting: everything about it except its value."""

    name: str
    type: ConfigType
    default: Value
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    or_else: int | None = None
    choices: tuple[str, ...] = ()
    any_case: bool = False
    shape: Shape = Shape.ANY
    dynamic: DynamicMode = DynamicMode.READ_ONLY
    internal: bool = False
    broker: tuple[Synonym, ...] = ()

    @property
    def sensitive(self) -> bool:
        """Whether nobody may be told the value."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """The value that ``text`` stands for, or an InvalidConfigError with the reason against it."""
        try:
            value = _PARSERS[self.type](text)
        except ValueError as error:
            raise self._invalid(text, str(error)) from None
        self._check(value)
        return value

    def format(self, value: Value) -> str | None:
        """The text that stands for a value, as Kafka spells it."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case float():
                return double_text(value)
            case tuple():
                return ",".join(value)
            case _:
                return str(value)

    def _check(self, value: Value) -> None:
        """Raise what speaks against it. It is shown as it was understood, and of a list only what is wrong."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if reason := self._out_of_bounds(value):
                raise self._invalid(self.format(value) or "", reason)
        elif self.shape is Shape.THROTTLED_REPLICAS and isinstance(value, tuple):
            if "".join(value) != "*" and not all(_REPLICA.fullmatch(item) for item in value):
                raise self._invalid(f"[{', '.join(value)}]", f"{self.name} must be {self.shape.value}")
        else:
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, str) and (reason := self._wrong_word(item)):
                    raise self._invalid(item, reason)

    def _out_of_bounds(self, value: float) -> str:
        if value == self.or_else:
            return ""
        if self.or_else is not None and not (self.at_least or 0) <= value <= (self.at_most or 0):
            return f"Value must be between {self.at_least} and {self.at_most} or equal to {self.or_else}"
        if self.at_least is not None and value < self.at_least:
            return f"Value must be at least {self.at_least}"
        if self.at_most is not None and value > self.at_most:
            return f"Value must be no more than {self.at_most}"
        return ""

    def _wrong_word(self, word: str) -> str:
        match self.shape:
            case Shape.NON_EMPTY:
                return "" if word.strip() else "String must be non-empty"
            case Shape.RELEASE:
                known = word in self.choices or any(choice.startswith(f"{word}-IV") for choice in self.choices)
                return "" if known else f"Version {word} is not a valid version"
            case Shape.ANY if self.choices and (word.upper() if self.any_case else word) not in self.choices:
                return f"String must be one of: {', '.join(self.choices)}"
            case _:
                return ""

    def _invalid(self, text: str, reason: str) -> InvalidConfigError:
        shown = "[hidden]" if self.sensitive else text
        return InvalidConfigError(f"Invalid value {shown} for configuration {self.name}: {reason}")


def key(
    name: str,
    type: ConfigType,  # noqa: A002 - Kafka's word
    default: Value,
    *,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    or_else: int | None = None,
    choices: tuple[str, ...] = (),
    any_case: bool = False,
    shape: Shape = Shape.ANY,
    dynamic: DynamicMode = DynamicMode.READ_ONLY,
    internal: bool = False,
    broker: tuple[Synonym, ...] = (),
) -> ConfigKey:
    """Declare a setting. ``or_else`` is a value that is allowed although it is out of bounds."""
    return ConfigKey(
        name, type, default, doc, at_least, at_most, or_else, choices, any_case, shape, dynamic, internal, broker
    )


def double_text(value: float) -> str:
    """A number as Java writes it: Kafka's brokers and tools show and read that."""
    if not isfinite(value):
        return "NaN" if isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_UNTIL:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"


_PLAIN_FROM: Final = 1e-3
_PLAIN_UNTIL: Final = 1e7
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def _whole(bits: int, name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise ValueError(f"Not a number of type {name}")
    return int(text)


def _double(text: str) -> float:
    """As Java reads it, but for hexadecimal digits."""
    if _DOUBLE.fullmatch(text.strip()) is None:
        raise ValueError("Not a number of type DOUBLE")
    return float(text.strip().rstrip("fFdD"))


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise ValueError("Expected value to be either true or false")
    return word == "true"


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


_PARSERS: Final[dict[ConfigType, Callable[[str], Value]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str.strip,
    ConfigType.INT: lambda text: _whole(32, "INT", text),
    ConfigType.SHORT: lambda text: _whole(16, "SHORT", text),
    ConfigType.LONG: lambda text: _whole(64, "LONG", text),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: str.strip,
    ConfigType.PASSWORD: str,
}
