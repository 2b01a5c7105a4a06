"""Kafka's own message classes write the same bytes, from the same values by name, and read them to the end.

The classes of 3.9.1 judge everything they know, those of 4.3.1 the versions and APIs that were added from there.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from ottla import wire
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from tests.messages import Samples, all_versions, as_json, every_version
from tests.peers.builds import java_classes

SOURCE = Path(__file__).parent / "java" / "Messages.java"
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")
RENAMED = {
    # What 3.9 calls so is version 0 of a later API; its one array has another name there.
    "ListConfigResourcesRequest": "ListClientMetricsResourcesRequest",
    "ListConfigResourcesResponse": "ListClientMetricsResourcesResponse",
}

CHANGED = {
    # Messages of servers among themselves, whose versions 4.3 changed under the same number or gave other names; ours
    # are those of 3.9.
    "ReadShareGroupStateSummaryResponse",
    "VoteRequest",
}


def _questions(seeds: range, *, is_3_9: bool) -> Iterator[tuple[str, str]]:
    for name, version in all_versions():
        for seed in seeds:
            message = Samples(Random(seed)).message(name, version)
            there = RENAMED.get(name, name) if is_3_9 else name
            values = "-" if there != name else json.dumps(as_json(message, name, version))
            yield f"{name} v{version}", f"{there} {version} {wire.encode(message, version).hex()} {version} {values}"


def _answers(libraries: str, questions: list[str]) -> list[str]:
    return _run(libraries, [], "\n".join(questions) + "\n")


def _run(libraries: str, arguments: list[str], told: str) -> list[str]:
    command = ["java", *QUICK, "-cp", java_classes(SOURCE, libraries), "Messages", *arguments]
    done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.splitlines()


def _judged(libraries: str, asked: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """For every answer that was given the messages it was given to."""
    titles, questions = zip(*asked, strict=True)
    found: dict[str, set[str]] = {}
    for title, answer in zip(titles, _answers(libraries, list(questions)), strict=True):
        found.setdefault(answer, set()).add(title)
    return found


@pytest.fixture(scope="module")
def by_3_9() -> dict[str, set[str]]:
    return _judged("kafka-3.9.1", _questions(range(2), is_3_9=True))


def test_the_classes_of_3_9_1_write_the_same_bytes(by_3_9: dict[str, set[str]]) -> None:
    assert by_3_9.keys() == {"ok", "absent"}
    assert len(by_3_9["ok"]) == 700


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_classes_of_3_9_1_write_the_same_bytes_for_many_values() -> None:
    assert _judged("kafka-3.9.1", _questions(range(60), is_3_9=True)).keys() == {"ok", "absent"}


def test_the_classes_of_4_3_1_write_the_same_bytes_where_those_of_3_9_1_have_none(by_3_9: dict[str, set[str]]) -> None:
    found = _judged("kafka-clients-4.3.1", _questions(range(2), is_3_9=False))
    assert by_3_9["absent"] <= found["ok"]
    assert _wrong(found) <= CHANGED


def _wrong(found: dict[str, set[str]]) -> set[str]:
    """The messages that got another answer than those that are right."""
    return {title.split()[0] for answer, titles in found.items() if answer not in ("ok", "absent") for title in titles}


def _older(seeds: range) -> Iterator[tuple[str, str]]:
    """Messages of every version, to be written in each lower one."""
    for name, origin in all_versions():
        for version, seed in ((version, seed) for version in every_version(name) if version < origin for seed in seeds):
            message = Samples(Random(seed), sparse=True).message(name, origin)
            try:
                made = wire.encode(message, version).hex()
            except wire.EncodeError:
                made = "refused"
            values = json.dumps(as_json(message, name, origin))
            yield f"{name} v{origin} as v{version}", f"{name} {version} {made} {origin} {values}"


def test_older_versions_refuse_and_drop_the_same_values() -> None:
    asked = list(_older(range(2)))
    refused = sum(" refused " in question for _, question in asked)
    assert 0.1 < refused / len(asked) < 0.9
    assert not _wrong(_judged("kafka-3.9.1", asked))
    assert _wrong(_judged("kafka-clients-4.3.1", asked)) <= CHANGED


@pytest.fixture(scope="module", params=["kafka-3.9.1", "kafka-clients-4.3.1"])
def facts(request: pytest.FixtureRequest) -> list[list[str]]:
    return [line.split() for line in _run(request.param, ["facts"], "")]


def test_error_codes_are_kafkas(facts: list[list[str]]) -> None:
    codes = {code.value for code in wire.ErrorCode}
    told = [words[1:] for words in facts if words[0] == "error" and int(words[1]) in codes]
    assert len(told) >= len(codes) - 2  # which are those that 3.9 does not have
    for code, name, is_retriable in told:
        ours = wire.ErrorCode(int(code))
        assert (ours.name, str(ours.retriable).lower()) == (name, is_retriable)


def test_headers_are_kafkas(facts: list[list[str]]) -> None:
    told = [tuple(map(int, words[1:])) for words in facts if words[0] == "header"]
    known = [row for row in told if row[0] in wire.APIS and row[1] in wire.APIS[wire.ApiKey(row[0])].versions]
    assert len(known) > 270
    for key, version, request_header, response_header in known:
        api = wire.APIS[wire.ApiKey(key)]
        request = b"".join(wire.request_framer(api.request, version, "me")(api.request(), 7))[4:]
        response = b"".join(map(wire.in_memory, wire.response_framer(api.response, version)(api.response(), 7)))[4:]
        head = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7, client_id="me")
        assert request == wire.encode(head, request_header) + wire.encode(api.request(), version)
        assert response == wire.encode(ResponseHeader(correlation_id=7), response_header) + wire.encode(
            api.response(), version
        )
