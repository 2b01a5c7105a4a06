r"""Java's ``.properties`` format, which ``zoo.cfg`` and ``server.properties`` are written in.

A logical line is ``key``, then ``=``, ``:`` or white space, then the value up to the end of the line. A line that
starts with ``#`` or ``!`` is a comment. An odd number of backslashes at its end continues a line, without the white
space that the next one starts with. Within keys and values ``\t \n \r \f \uXXXX`` are what they look like, and a
backslash before anything else only protects it from being a separator. A key given twice has its last value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ottla.base.errors import ConfigError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.|$)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*([=: \t\f])")
_ODD_BACKSLASHES = re.compile(r"(?<!\\)(?:\\\\)*\\$")


def parse_properties(text: str) -> dict[str, str]:
    """Read the keys and values of a properties file."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        found = _SEPARATOR.search(line)
        end = found.start(1) if found else len(line)
        value = line[end:].lstrip(_BLANK)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANK)
        properties[_unescape(line[:end])] = _unescape(value)
    return properties


def format_properties(properties: Iterable[tuple[str, str]]) -> str:
    """Write a properties file that ``parse_properties``, and Java, read back as it was."""
    return "".join(f"{_escape(key, '=: #!')}={_escape(value)}\n" for key, value in properties)


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    # Not splitlines(): that also breaks at characters which Java takes for ordinary ones.
    for natural in re.split(r"\r\n|\r|\n", text):
        line = pending + natural.lstrip(_BLANK)
        if not pending and line[:1] in ("#", "!", ""):
            continue
        if _ODD_BACKSLASHES.search(line):
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    code = match.group(1)
    if code == "u":
        raise ConfigError("a properties file has \\u without four hexadecimal digits behind it")
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)


def _escape(text: str, separators: str = "") -> str:
    escaped = text.replace("\\", "\\\\")
    for letter, char in _ESCAPES.items():
        escaped = escaped.replace(char, "\\" + letter)
    for char in separators:
        escaped = escaped.replace(char, "\\" + char)
    return "\\" + escaped if escaped[:1] == " " else escaped
