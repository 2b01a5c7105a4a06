"""The two walks over records against each other and against the decoder."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.batch import HEADER_BYTES
from ottla.records.record import Record, build_batch, put_varint, read_batch
from ottla.records.walk import OK, StreamWalk, varlong, walk

contents = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    offset=st.just(-1),
    key=contents,
    value=contents,
    timestamp=st.integers(-1, 1 << 62),
    headers=st.lists(st.tuples(st.binary(max_size=9), contents), max_size=3).map(tuple),
)
batches = st.lists(records, min_size=1, max_size=20)


def streamed(body: bytes, count: int, cuts: list[int]) -> tuple[int, ...]:
    stream = StreamWalk(count)
    start = 0
    for end in (*sorted(cuts), len(body)):
        if not stream.feed(body[start : max(start, end)]):
            break
        start = max(start, end)
    return stream.finish()


@given(batches, st.lists(st.integers(0, 2000), max_size=9))
@settings(deadline=None)
def test_both_walks_find_what_the_decoder_finds(batch: list[Record], cuts: list[int]) -> None:
    data = build_batch(batch)
    found = walk(data, HEADER_BYTES, len(data), len(batch))
    deltas = [record.timestamp - batch[0].timestamp for record in batch]
    keyless = next((i for i, record in enumerate(batch) if record.key is None), -1)
    assert found == (OK, len(batch), min(deltas), max(deltas), keyless)
    assert streamed(data[HEADER_BYTES:], len(batch), cuts) == found
    assert [record._replace(offset=-1) for record in read_batch(data)] == batch


@given(batches, st.data())
@settings(deadline=None, max_examples=400)
def test_both_walks_refuse_the_same(batch: list[Record], data: st.DataObject) -> None:
    body = bytearray(build_batch(batch)[HEADER_BYTES:])
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    whole = walk(bytes(body), 0, len(body), len(batch))
    chunked = streamed(bytes(body), len(batch), data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    assert (whole[0] == OK) == (chunked[0] == OK)
    if whole[0] == OK:
        assert whole == chunked


@given(st.binary(max_size=300), st.integers(1, 9))
def test_noise_is_survived(noise: bytes, count: int) -> None:
    assert (walk(noise, 0, len(noise), count)[0] == OK) == (streamed(noise, count, [])[0] == OK)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_come_back(number: int) -> None:
    data = put_varint(number)
    assert varlong(data, 0, len(data)) == (number, len(data))
