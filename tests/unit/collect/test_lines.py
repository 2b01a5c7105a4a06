from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.collect.lines import Line, LineCutter

BYTES = st.binary(max_size=60).map(lambda data: data.translate(bytes(b"ab\r\n\n"[each % 5] for each in range(256))))


def whole(data: bytes, limit: int) -> list[Line]:
    """What a line is, said in another way."""
    lines = []
    for line in data.split(b"\n")[: None if not data.endswith(b"\n") and data else -1]:
        pieces = [line[at : at + limit] for at in range(0, len(line), limit)] or [b""]
        pieces[-1] = pieces[-1].removesuffix(b"\r")
        cut = len(pieces) > 1
        lines += [
            Line(piece, number if cut else 0, is_last=number == len(pieces))
            for number, piece in enumerate(pieces, start=1)
        ]
    return lines


@given(st.lists(BYTES, max_size=6), st.integers(1, 8))
def test_any_chunking_gives_the_same_lines(chunks: list[bytes], limit: int) -> None:
    cutter = LineCutter(limit)
    lines = [line for chunk in chunks for line in cutter.feed(chunk)]
    assert len(cutter.rest) <= limit
    assert lines + cutter.finish() == whole(b"".join(chunks), limit)


@given(BYTES, st.integers(1, 5), st.integers(0, 60))
def test_who_goes_on_in_the_midst_of_a_line_numbers_its_pieces_on(data: bytes, limit: int, at: int) -> None:
    first = LineCutter(limit)
    lines = first.feed(data[:at])
    again = LineCutter(limit, first.piece)
    lines += again.feed(data[at - len(first.rest) if at <= len(data) else len(data) - len(first.rest) :])
    assert lines + again.finish() == whole(data, limit)


def test_an_endless_line_is_given_out_in_pieces() -> None:
    cutter = LineCutter(4)
    assert cutter.feed(b"abcdefghi") == [Line(b"abcd", 1, is_last=False), Line(b"efgh", 2, is_last=False)]
    assert cutter.feed(b"\r\nnext\n") == [Line(b"i", 3), Line(b"next")]
