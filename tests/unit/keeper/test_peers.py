from __future__ import annotations

import pytest

from ottla.base.errors import ConfigError
from ottla.keeper.peers import Address, Peer, Role, parse_peer


@pytest.mark.parametrize(
    ("value", "peer"),
    [
        ("h:2888:3888", Peer(1, Address("h", 2888), Address("h", 3888))),
        ("h:2888:3888:participant", Peer(1, Address("h", 2888), Address("h", 3888))),
        ("h:2888:3888:Observer", Peer(1, Address("h", 2888), Address("h", 3888), Role.OBSERVER)),
        ("h:2888:3888;2181", Peer(1, Address("h", 2888), Address("h", 3888), client=Address("", 2181))),
        (
            "h:2888:3888:observer;0.0.0.0:2181",
            Peer(1, Address("h", 2888), Address("h", 3888), Role.OBSERVER, Address("0.0.0.0", 2181)),
        ),
        (
            "[::1]:2888:3888:participant;[::2]:2181",
            Peer(1, Address("::1", 2888), Address("::1", 3888), client=Address("::2", 2181)),
        ),
        ("h : 2888 : 3888", Peer(1, Address("h", 2888), Address("h", 3888))),
    ],
)
def test_a_server_line_is_read(value: str, peer: Peer) -> None:
    assert parse_peer("server.1", value) == peer
    assert parse_peer("server.1", str(peer)) == peer


@pytest.mark.parametrize(
    "value",
    [
        "",
        "h",
        "h:2888",
        "h:a:b",
        "h:1:2:3",
        "h:1:2:leader",
        "h:1:2;",
        "h:1:2;a:b:3",
        "::1:2888:3888",
        "[::1:1:2",
        "h:1:2:",
    ],
)
def test_a_malformed_line_is_refused_with_the_form_it_must_have(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_peer("server.1", value)
    assert str(caught.value).startswith(f"server.1={value}: must be host:quorumPort:electionPort[")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("server.x", "h:1:2", "must be the number of the server"),
        ("server.-1", "h:1:2", "must be the number of the server"),
        ("server.1", "h:0:2", "from 1 to 65535, not 0"),
        ("server.1", "h:1:65536", "from 1 to 65535, not 65536"),
        ("server.1", "h:1:2;70000", "from 1 to 65535, not 70000"),
        ("server.1", "h:7:7", "must differ"),
        ("server.1", "h:1:2|g:1:2", "more than one address"),
    ],
)
def test_an_impossible_line_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_peer(key, value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "a.localhost", "::1"])
def test_loopback(host: str) -> None:
    assert Address(host, 1).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.example.org", ""])
def test_not_loopback(host: str) -> None:
    assert not Address(host, 1).is_loopback


def test_an_address_is_written_as_clients_take_it() -> None:
    assert str(Address("h", 1)) == "h:1"
    assert str(Address("::1", 1)) == "[::1]:1"
