r"""The language of format strings, for ``consume -f`` and ``produce -f`` alike.

    %t topic        %T its length          %p partition          %d timestamp, in milliseconds
    %k key          %K its length          %o offset             %i number of the record, from 1
    %v value        %V its length          %e leader epoch       %a{timestamp-type} CreateTime or LogAppendTime
    %h{ %k=%v }     for each header        %H number of headers  %[ start and %] high watermark of the partition

    \t \n \r \\ \xNN    bytes              %% %{ %}  these characters

Behind a verb, braces say how it is written:

    text       {hex} {base64} {base64raw} {unpack[...]}; to read also {N}, that many bytes
    numbers    {ascii} {hex} {hex64} {hex32} {hex16} {hex8} {hex4} {big64} {big32} {big16} {big8} {little64} ... {byte} {bool}
    times      as numbers, or {strftime[...]}

What unpack and strftime take stands between ``[ ]``, ``{ }`` or any number of ``#``. Unpack reads: ``< >`` byte order from here
on, ``b B`` 8, ``h H`` 16, ``i I`` 32, ``q Q`` 64 bits, ``c`` or ``.`` a byte, ``s`` the rest, ``$`` the end; ``x`` reads nothing and
writes a space.

This module only takes such a string apart; ``formatting`` writes by it and ``reading`` reads by it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TEXT_VERBS = "tkv"
LENGTH_VERBS = "TKV"
NUMBER_VERBS = "TKVHpoei[]"
TIME_VERB = "d"
HEADERS_VERB = "h"
ATTRIBUTES_VERB = "a"

NUMBER_MODIFIERS = {"ascii", "hex", "hex64", "hex32", "hex16", "hex8", "hex4", "byte", "bool"} | {
    f"{order}{bits}" for order in ("big", "little") for bits in (64, 32, 16, 8)
}
TEXT_MODIFIERS = frozenset(("hex", "base64", "base64raw"))
UNPACK_CODES = frozenset("<>bBhHiIqQc.s$x")
_UNSEEN = {
    "x": "the producer's id",
    "y": "the producer's epoch",
    "|": "the last stable offset",
}
_SLASHES = {"t": b"\t", "n": b"\n", "r": b"\r", "\\": b"\\"}
_CLOSERS = {"[": "]", "{": "}", "#": "#"}
_OPENING = re.compile(r"\[+|\{+|#+")


class LayoutError(ValueError):
    """A format string that cannot be; the message says where and why."""


class Literal(NamedTuple):
    data: bytes


class Verb(NamedTuple):
    name: str
    modifier: str = ""
    argument: str = ""
    inner: tuple[Literal | Verb, ...] = ()


Layout = tuple[Literal | Verb, ...]


def wants_headers(layout: Layout) -> bool:
    return any(isinstance(piece, Verb) and piece.name in ("H", HEADERS_VERB) for piece in layout)


def parse_layout(text: str) -> Layout:
    return _Parser(text).parse(in_header=False)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self, *, in_header: bool) -> Layout:
        pieces: list[Literal | Verb] = []
        literal = bytearray()
        while self._at < len(self._text):
            character = self._text[self._at]
            if in_header and character == "}":
                break
            self._at += 1
            if character == "\\":
                literal += self._slash()
            elif character != "%":
                literal += character.encode()
            elif self._peek() in ("%", "{", "}"):
                literal += self._take().encode()
            else:
                if literal:
                    pieces.append(Literal(bytes(literal)))
                    literal.clear()
                pieces.append(self._verb(in_header=in_header))
        if literal:
            pieces.append(Literal(bytes(literal)))
        return tuple(pieces)

    def _verb(self, *, in_header: bool) -> Verb:
        if self._at == len(self._text):
            raise LayoutError("a % at the end; write %% for a percent sign")
        name = self._take()
        if in_header and name not in "kKvV":
            raise LayoutError(f"%{name} inside %h{{...}}: a header has %k, %K, %v and %V only")
        if name in _UNSEEN:
            raise LayoutError(f"%{name}: {_UNSEEN[name]} is not shown to clients of librdkafka; see 'ottla log dump'")
        if name == HEADERS_VERB:
            return self._headers()
        if name in TEXT_VERBS:
            return self._text_verb(name)
        if name == TIME_VERB:
            return self._time_verb()
        if name == ATTRIBUTES_VERB:
            if self._braces() != "timestamp-type":
                raise LayoutError("%a: only %a{timestamp-type} is shown to clients of librdkafka; see 'ottla log dump'")
            return Verb(name, "timestamp-type")
        if name in NUMBER_VERBS:
            return Verb(name, self._number_modifier(name))
        raise LayoutError(f"%{name}: no such verb")

    def _headers(self) -> Verb:
        if self._peek() != "{":
            raise LayoutError("%h needs braces with what is written for each header, as in %h{%k=%v }")
        self._take()
        inner = self.parse(in_header=True)
        self._close("h")
        return Verb(HEADERS_VERB, inner=inner)

    def _text_verb(self, name: str) -> Verb:
        if self._opened("{unpack"):
            codes = self._enclosed(name)
            for code in codes:
                if code not in UNPACK_CODES:
                    raise LayoutError(f"%{name}{{unpack}}: {code!r} is no code; they are <>bBhHiIqQc.s$x")
            return Verb(name, "unpack", codes)
        modifier = self._braces()
        if modifier and modifier not in TEXT_MODIFIERS and not (modifier.isascii() and modifier.isdigit()):
            raise LayoutError(f"%{name}{{{modifier}}}: text is written as hex, base64, base64raw or unpack[...]")
        return Verb(name, modifier)

    def _time_verb(self) -> Verb:
        if self._opened("{strftime"):
            return Verb(TIME_VERB, "strftime", self._enclosed(TIME_VERB))
        if self._opened("{go"):
            raise LayoutError("%d{go...}: times are laid out by strftime here: %d{strftime[%Y-%m-%dT%H:%M:%SZ]}")
        return Verb(TIME_VERB, self._number_modifier(TIME_VERB))

    def _number_modifier(self, name: str) -> str:
        modifier = self._braces() or "ascii"
        if modifier not in NUMBER_MODIFIERS:
            raise LayoutError(f"%{name}{{{modifier}}}: no way to write a number; see 'ottla consume --help'")
        return modifier

    def _braces(self) -> str:
        """What stands in braces here, if anything does."""
        if self._peek() != "{":
            return ""
        end = self._text.find("}", self._at)
        if end < 0:
            raise LayoutError(f"{self._text[self._at :]!r}: the brace is never closed; write %{{ for a brace itself")
        found = self._text[self._at + 1 : end]
        if not found:
            raise LayoutError("{}: nothing in the braces; write %{%} for the braces themselves")
        self._at = end + 1
        return found

    def _enclosed(self, name: str) -> str:
        """``word[argument]}``, with any of the delimiters."""
        while self._peek().isalpha():
            self._take()
        opening = _OPENING.match(self._text, self._at)
        if opening is None:
            raise LayoutError(f"%{name}: what it takes stands in brackets, as in strftime[%F]")
        closing = _CLOSERS[opening[0][0]] * len(opening[0])
        end = self._text.find(closing, opening.end())
        if end < 0:
            raise LayoutError(f"%{name}: {opening[0]} is never closed by {closing}")
        self._at = end + len(closing)
        self._close(name)
        return self._text[opening.end() : end]

    def _close(self, name: str) -> None:
        if self._peek() != "}":
            raise LayoutError(f"%{name}: the brace is never closed")
        self._take()

    def _slash(self) -> bytes:
        escaped = self._take() if self._at < len(self._text) else ""
        if escaped == "x":
            digits = self._text[self._at : self._at + 2]
            if not re.fullmatch(r"[0-9a-fA-F]{2}", digits):
                raise LayoutError(r"\x needs two hex digits")
            self._at += 2
            return bytes.fromhex(digits)
        if escaped not in _SLASHES:
            raise LayoutError(f"\\{escaped}: the escapes are \\t \\n \\r \\\\ \\xNN")
        return _SLASHES[escaped]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _opened(self, prefix: str) -> bool:
        if not self._text.startswith(prefix, self._at):
            return False
        self._at += 1
        return True
