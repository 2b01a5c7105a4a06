"""Frames come out as they went in, however the stream is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.net.frames import FrameReader

FRAMES = st.lists(st.binary(max_size=300), max_size=12)


@given(FRAMES, st.data())
def test_any_cut_gives_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    reader, got, at = FrameReader(300), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        got += reader.feed(stream[at : at + size])
        at += size
    assert got == frames
    assert reader.held_bytes == 0


@given(FRAMES, st.integers(0, 303))
def test_only_what_has_arrived_is_held(frames: list[bytes], missing: int) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in [*frames, b"x" * 300])
    reader = FrameReader(300)
    assert reader.feed(stream[: len(stream) - 1 - missing]) == frames
    assert reader.held_bytes == 303 - missing
