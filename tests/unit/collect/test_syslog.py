from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.collect.lines import Line
from ottla.collect.syslog import SyslogFramer

MESSAGES = st.binary(min_size=1, max_size=20).map(lambda data: b"<1>" + data.replace(b"\n", b"-").replace(b"\r", b"-"))
LIMIT = 10


def joined(lines: list[Line]) -> list[bytes]:
    """Pieces put together again."""
    messages, pieces = [], b""
    for line in lines:
        assert len(line.value) <= LIMIT
        assert line.piece or line.is_last
        pieces += line.value
        if line.is_last:
            messages.append(pieces)
            pieces = b""
    assert not pieces
    return messages


def in_chunks(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(places)]


@given(st.lists(st.tuples(MESSAGES, st.booleans()), max_size=6), st.lists(st.integers(0, 999), max_size=8))
def test_messages_of_both_kinds_come_out_whatever_the_chunks(
    messages: list[tuple[bytes, bool]], cuts: list[int]
) -> None:
    expected, stream = [], b""
    for message, is_counted in messages:
        if is_counted:
            expected.append(message)
            stream += b"%d %b" % (len(message), message)
        else:
            expected.append(message.replace(b"\0", b"-"))
            stream += expected[-1] + b"\n"
    framer = SyslogFramer(LIMIT)
    found = [line for chunk in in_chunks(stream, cuts) for line in framer.feed(chunk)]
    assert joined(found + framer.finish()) == expected


@given(st.binary(max_size=80), st.lists(st.integers(0, 999), max_size=8))
def test_any_bytes_give_the_same_whatever_the_chunks(stream: bytes, cuts: list[int]) -> None:
    whole, cut = SyslogFramer(LIMIT), SyslogFramer(LIMIT)
    expected = whole.feed(stream) + whole.finish()
    assert [line for chunk in in_chunks(stream, cuts) for line in cut.feed(chunk)] + cut.finish() == expected


def test_a_message_whose_length_was_told_may_have_newlines_in_it() -> None:
    assert SyslogFramer(99).feed(b"8 <1>a\nb\nc<2>d\r\n\n10 <3>") == [Line(b"<1>a\nb\nc"), Line(b"<2>d")]


def test_numbers_that_are_no_lengths_are_text() -> None:
    framer = SyslogFramer(99)
    assert framer.feed(b"12:30 started\n1234567890 x\n77") == [Line(b"12:30 started"), Line(b"1234567890 x")]
    assert framer.finish() == [Line(b"77")]
