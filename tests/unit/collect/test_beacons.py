from __future__ import annotations

import json
from http import HTTPStatus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.collect.beacons import EVENTS_MAX, BeaconError, from_body, from_query

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=5)


@settings(max_examples=40)
@given(OBJECTS, st.sampled_from([None, 2]))
def test_objects_arrive_however_they_are_packed(objects: list[dict[str, object]], indent: int | None) -> None:
    texts = [json.dumps(each, indent=indent, ensure_ascii=False) for each in objects]
    for kind, body in (
        ("application/json", json.dumps(objects, indent=indent)),
        ("text/plain;charset=UTF-8", "\n".join(texts)),
        ("application/x-ndjson", "\r\n".join(texts) + "\n"),
    ):
        events = from_body(kind, body.encode())
        assert [json.loads(event) for event in events] == objects
        assert not any(b"\n" in event for event in events)


def test_digits_stay_as_they_were_sent() -> None:
    assert from_body("", b'[{"a": 1.10}, {"b":123456789012345678901234567890}]') == [
        b'{"a": 1.10}',
        b'{"b":123456789012345678901234567890}',
    ]


def test_fields_of_queries_and_forms() -> None:
    expected = {"page": "/ä b", "tag": ["x", "y", ""], "none": ""}
    text = "page=%2F%C3%A4+b&tag=x&tag=y&tag=&none="
    assert [json.loads(event) for event in from_query(text)] == [expected]
    assert [json.loads(event) for event in from_body("application/x-www-form-urlencoded", text.encode())] == [expected]
    assert from_query("") == []


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{", HTTPStatus.BAD_REQUEST),
        ("application/json", b"[{}", HTTPStatus.BAD_REQUEST),
        ("application/json", b"[{}] {}", HTTPStatus.BAD_REQUEST),
        ("application/json", b"[{},]", HTTPStatus.BAD_REQUEST),
        ("application/json", b"17", HTTPStatus.BAD_REQUEST),
        ("application/json", b'{"a": NaN}', HTTPStatus.BAD_REQUEST),
        ("application/json", b'{"a": "\xff"}', HTTPStatus.BAD_REQUEST),
        ("application/json", b'{"a":' + b"[" * 100_000, HTTPStatus.BAD_REQUEST),
        ("application/x-ndjson", b"[{}]", HTTPStatus.BAD_REQUEST),
        ("application/xml", b"<a/>", HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
        ("application/x-www-form-urlencoded", b"a=1&" * 2000, HTTPStatus.BAD_REQUEST),
        ("application/json", b"{}" * (EVENTS_MAX + 1), HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    ],
)
def test_what_is_no_event_is_refused(kind: str, body: bytes, status: HTTPStatus) -> None:
    with pytest.raises(BeaconError) as caught:
        from_body(kind, body)
    assert caught.value.status == status
