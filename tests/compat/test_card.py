"""What tells right from wrong in the tests of clients does tell it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Literal, cast

import pytest

from tests.compat.card import Card
from tests.compat.clients.client import Client
from tests.compat.clients.lines import Record
from tests.compat.test_clients import check

SENT = [Record(0, b"k", b"v", (("h", b"x"),), 5), Record(0, None, None, (), 6)]
GOT = [replace(record, offset=offset) for offset, record in enumerate(SENT)]
ABLE = cast(Client, SimpleNamespace(can=lambda *_things: True))


def report(
    test: str, when: Literal["setup", "call", "teardown"], outcome: Literal["passed", "failed"]
) -> pytest.TestReport:
    told: list[tuple[str, object]] = [("did", "codecs"), ("client", "some client"), ("server", "Ottla")]
    if when != "setup":
        told.append(("version", "1.2"))
    return pytest.TestReport(test, (test, 1, test), {}, outcome, None, when, user_properties=told)


def test_the_card_counts_each_test_once_and_shows_failures_wherever_they_happen() -> None:
    card = Card()
    for when in ("setup", "call", "teardown"):
        card.add(report("first", when, "passed"))
    card.add(report("second", "setup", "failed"))
    assert card.lines() == [
        "on Ottla",
        f"  {'some client':<18} {'1.2':<28} 1 passed, 1 FAILED",
        "      codecs",
        "      FAILED codecs: second",
    ]


def test_a_failure_behind_a_test_takes_its_pass_away() -> None:
    card = Card()
    card.add(report("first", "call", "passed"))
    card.add(report("first", "teardown", "failed"))
    assert card.lines()[1].endswith("0 passed, 1 FAILED")


def test_the_check_of_records_passes_what_is_equal() -> None:
    check(ABLE, SENT, GOT)


@pytest.mark.parametrize(
    "got",
    [
        GOT[:1],
        [GOT[1], GOT[0]],
        [replace(GOT[0], key=None), GOT[1]],
        [replace(GOT[0], value=b""), GOT[1]],
        [replace(GOT[0], headers=(("h", None),)), GOT[1]],
        [replace(GOT[0], timestamp=6), GOT[1]],
        [replace(GOT[0], partition=1), GOT[1]],
        [GOT[0], replace(GOT[1], offset=2)],
        [GOT[0], replace(GOT[1], value=b"")],
    ],
    ids=["missing", "order", "key", "value", "header", "time", "partition", "offset", "null"],
)
def test_the_check_of_records_sees_what_differs(got: list[Record]) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check(ABLE, SENT, got)
