from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ConfigError
from ottla.base.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("  a  =  b  ", {"a": "b  "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("# a=b\n  ! c=d\n\n\te=f", {"e": "f"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n    two", {"a": "one,two"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=b\\\n#not a comment", {"a": "b#not a comment"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\t\\n\\u00e9\\z", {"a": "\t\n\u00e9z"}),
        ("a=C:\\\\data", {"a": "C:\\data"}),
        ("a=b\\", {"a": "b"}),
        ("a=b\u2028c", {"a": "b\u2028c"}),
    ],
)
def test_lines_mean_what_they_mean_in_java(written: str, read: dict[str, str]) -> None:
    assert parse_properties(written) == read


def test_a_broken_escape_is_an_error() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties("a=\\u12")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(TEXT.filter(bool), TEXT))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties.items())) == properties
