"""Where a group is to go on, as people and files say it."""

from __future__ import annotations

import pytest

from ottla.cli.client.ranges import END, START, Bound, Kind
from ottla.cli.client.resets import Place, ResetError, parse_offsets, parse_place, parse_topics

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", START),
        ("earliest", START),
        ("end", END),
        ("latest", END),
        ("17", Bound(Kind.OFFSET, 17)),
        ("+3", Bound(Kind.AFTER_START, 3)),
        ("-3", Bound(Kind.BEFORE_END, 3)),
        ("@-1h", Bound(Kind.TIME, NOW_MS - 3_600_000)),
        ("@2023-11-14", Bound(Kind.TIME, 1_699_920_000_000)),
    ],
)
def test_places(text: str, expected: Bound) -> None:
    assert parse_place(text, now_ms=NOW_MS) == Place(expected)


@pytest.mark.parametrize("text", ["", "soon", "1:2", "@yesterday", "@-2h:-1h"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(ResetError):
        parse_place(text, now_ms=NOW_MS)


def test_topics_and_partitions() -> None:
    assert parse_topics(["a", "b:2,1", "b:0"]) == {"a": [], "b": [0, 1, 2]}
    assert parse_topics(["a:1", "a"]) == parse_topics(["a", "a:1"]) == {"a": []}
    with pytest.raises(ResetError):
        parse_topics(["a:x"])


def test_files_of_kafkas_tool_and_of_ours() -> None:
    lines = ["t,0,5", '"g","t",1,6', "", "other,t,2,7", '{"group": "g", "topic": "u", "partition": 0, "new_offset": 8}']
    assert parse_offsets(lines, "g") == {("t", 0): 5, ("t", 1): 6, ("u", 0): 8}


@pytest.mark.parametrize("line", ["t,0", "t,x,1", "a,b,c,1,2", "t,0,-1", "{", '{"topic": "t"}'])
def test_lines_that_name_no_offset(line: str) -> None:
    with pytest.raises(ResetError, match="line 1"):
        parse_offsets([line], "g")
