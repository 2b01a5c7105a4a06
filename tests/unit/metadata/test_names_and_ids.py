from __future__ import annotations

import pytest

from ottla.metadata.errors import InvalidTopicError, ZnodeError
from ottla.metadata.ids import METADATA_ID, format_id, parse_id, topic_id_from
from ottla.metadata.names import check_topic_collision, check_topic_name, is_internal


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "__consumer_offsets", "..."])
def test_legal_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "'.' or '..'"),
        ("..", "'.' or '..'"),
        ("x" * 250, "249"),
        ("a b", "ASCII"),
        ("ü", "ASCII"),
        ("a\n", "ASCII"),
    ],
)
def test_illegal_names(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopicError, match=reason):
        check_topic_name(name)


def test_names_that_metrics_could_not_tell_apart_collide() -> None:
    with pytest.raises(InvalidTopicError, match=r"collides with existing topics: a\.b$"):
        check_topic_collision("a_b", ["a.b", "a_b", "c"])
    check_topic_collision("a.b", ["a.b", "ab", "a-b"])
    assert is_internal("__transaction_state")
    assert not is_internal("__other")


def test_an_id_is_twenty_two_characters() -> None:
    text = "7Rb2zDDzR_Sei38qH1YVSw"
    assert format_id(parse_id(text)) == text
    for wrong in ("", "7Rb2", text + "A", "7Rb2zDDzR/Sei38qH1YVS!", "ü" * 22):
        with pytest.raises(ZnodeError):
            parse_id(wrong)


def test_a_drawn_id_is_a_random_uuid_and_never_a_reserved_one() -> None:
    drawn = topic_id_from(b"\x01" * 16)
    assert drawn is not None
    assert drawn[6] >> 4 == 4
    assert drawn[8] >> 6 == 2
    assert topic_id_from(b"\xf8" + bytes(15)) is None  # its text begins with a dash
    assert topic_id_from(METADATA_ID) != METADATA_ID
