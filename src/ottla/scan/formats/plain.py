"""Values as they are: text, or bytes where they are no text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ottla.scan.formats.base import Decoding, Format, as_text


class PlainFormat(Format):
    """One column, ``value``."""

    def __init__(self, *, text: bool) -> None:
        super().__init__(pa.schema([("value", pa.string() if text else pa.binary())]))
        self.name = "text" if text else "binary"

    def decode(self, values: pa.Array, names: Sequence[str]) -> Decoding:
        return Decoding({name: as_text(values) if self.name == "text" else values for name in names}, None)
