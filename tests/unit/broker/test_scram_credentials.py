"""Which users have a password: what Apache Kafka has written, told as it tells it, and none of what is secret."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from ottla.broker.apis.k50_describe_user_scram_credentials import handle
from ottla.broker.context import Context
from ottla.metadata import Image
from ottla.metadata.znodes.configs import ConfigClient, ConfigEntity
from ottla.wire.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

CREDENTIAL = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=8192"
USERS = {
    ConfigEntity("users", "carol"): {"SCRAM-SHA-512": CREDENTIAL, "producer_byte_rate": "5"},
    ConfigEntity("users", "bob"): {"SCRAM-SHA-512": CREDENTIAL, "SCRAM-SHA-256": CREDENTIAL},
    ConfigEntity("users", "quick"): {"producer_byte_rate": "5"},
    ConfigEntity("users", "torn"): {"SCRAM-SHA-256": CREDENTIAL.removesuffix("8192")},
    ConfigEntity("users", "short"): {"SCRAM-SHA-256": "iterations=8192"},
    ConfigEntity("users", None): {"consumer_byte_rate": "5"},
    ConfigEntity("users", "carol", ConfigClient("c")): {"consumer_byte_rate": "5"},
}
UNEXPECTED: tuple[int, str | None, list[tuple[int, int]]] = (
    -1,
    "The server experienced an unexpected error when processing the request.",
    [],
)
Told = tuple[str, tuple[int, str | None, list[tuple[int, int]]]]


def told(*names: str, users: dict[ConfigEntity, dict[str, str]] | None = None) -> list[Told]:
    image = Image(configs=USERS if users is None else users)
    ctx = cast("Context", SimpleNamespace(services=SimpleNamespace(cluster=SimpleNamespace(image=image))))
    answer = handle(ctx, DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None))
    assert (answer.error_code, answer.error_message) == (0, "")
    return [
        (
            each.user,
            (each.error_code, each.error_message, [(it.mechanism, it.iterations) for it in each.credential_infos]),
        )
        for each in answer.results
    ]


def test_everybody_who_has_one_is_told_of_in_order() -> None:
    assert told() == [
        ("bob", (0, "", [(1, 8192), (2, 8192)])),
        ("carol", (0, "", [(2, 8192)])),
        ("short", UNEXPECTED),
        ("torn", UNEXPECTED),
    ]
    assert told(users={}) == []


@pytest.mark.parametrize("name", ["nobody", "quick"])
def test_who_has_none_is_not_found(name: str) -> None:
    message = f"Attempt to describe a user credential that does not exist: {name}"
    assert told(name) == [(name, (91, message, []))]


def test_who_is_named_twice_is_answered_once() -> None:
    message = "Cannot describe SCRAM credentials for the same user twice in a single request: bob"
    assert told("bob", "carol", "bob", "", "") == [
        ("bob", (92, message, [])),
        ("carol", (0, "", [(2, 8192)])),
        ("", (91, "Username must not be empty", [])),
    ]
