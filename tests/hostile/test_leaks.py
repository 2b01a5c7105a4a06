"""Nothing is told to those who may not read it: ZooKeeper's own leaks of the past, tried on ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat import rawclient as raw
from tests.compat.rawclient import OPEN_ACL, Connection, acl, bool_, buffer, int_, string, vector
from tests.compat.steps import auth, digest
from tests.hostile.oracle import opened
from tests.peers import Ensemble, OttlaKeepers

OK, NO_AUTH = 0, -102
READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
OWNER, READER = "owner:secret", "reader:word"


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("leaks"), settings={"tickTime": "2000"}) as ensemble:
        yield ensemble


def known(keeper: Ensemble, credentials: str) -> Connection:
    """A connection with an identity."""
    connection = opened(keeper.client_ports[0])
    body = b"".join(part for part in auth("digest", credentials).parts if isinstance(part, bytes))
    assert connection.call(raw.AUTH, body)["err"] == OK
    return connection


def create(connection: Connection, path: str, acls: bytes) -> None:
    assert connection.call(raw.CREATE, string(path) + buffer(b"data") + acls + int_(0))["err"] == OK


def test_digests_are_shown_only_to_administrators(keeper: Ensemble) -> None:
    """CVE-2019-0201."""
    owner, reader, stranger = known(keeper, OWNER), known(keeper, READER), opened(keeper.client_ports[0])
    create(owner, "/digests", vector([acl(31, "digest", digest(OWNER)), acl(READ, "digest", digest(READER))]))
    get_acl = string("/digests")
    shown = {entry[2] for entry in _entries(owner.call(raw.GET_ACL, get_acl))}
    assert shown == {digest(OWNER), digest(READER)}
    masked = {entry[2] for entry in _entries(reader.call(raw.GET_ACL, get_acl))}
    assert masked == {"owner:x", "reader:x"}
    assert stranger.call(raw.GET_ACL, get_acl)["err"] == NO_AUTH


def _entries(answer: dict[str, object]) -> tuple[tuple[int, str, str], ...]:
    assert answer["err"] == OK
    entries = answer["acl"]
    assert isinstance(entries, tuple)
    return entries


def test_a_recursive_watch_tells_nothing_of_nodes_that_may_not_be_read(keeper: Ensemble) -> None:
    """CVE-2024-23944."""
    owner, stranger = known(keeper, OWNER), opened(keeper.client_ports[0])
    create(owner, "/watched", OPEN_ACL)
    for path, mode in (("/watched", 1), ("/watched/secret", 0)):
        assert stranger.call(raw.ADD_WATCH, string(path) + int_(mode))["err"] == OK
    assert stranger.call(raw.EXISTS, string("/watched/secret") + bool_(True))["err"] != OK
    create(owner, "/watched/secret", vector([acl(31, "digest", digest(OWNER))]))
    create(owner, "/watched/secret/deeper", vector([acl(31, "digest", digest(OWNER))]))
    assert owner.call(raw.SET_DATA, string("/watched/secret") + buffer(b"changed") + int_(-1))["err"] == OK
    create(owner, "/watched/public", OPEN_ACL)
    stranger.request(raw.PING)
    told: list[str] = []
    while True:
        frame = stranger.receive()
        if int.from_bytes(frame[:4], "big", signed=True) == raw.PING_XID:
            break
        told.append(str(dict(raw.decode_event(frame))["path"]))
    assert told == ["/watched/public"]
