"""Hostile input on the ports between servers: strangers are shut out, and the ensemble goes on as it was.

The protocol between our servers is our own; this is its greeting, put together here field by field:

    frame = int length, then: four bytes "OTTK", short version, long server id, byte purpose (1 election, 2 link)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from tests.compat import rawclient as raw
from tests.compat.rawclient import ClosedError, Connection, buffer, int_, string
from tests.hostile.oracle import Undisturbed, closes, opened
from tests.peers import Ensemble, OttlaKeepers, four_letter_word, wait_until

PARALLEL = 8
ELECTION, LINK = 1, 2


def framed(body: bytes) -> bytes:
    return int_(len(body)) + body


def hello(server_id: int, purpose: int, *, magic: bytes = b"OTTK", version: int = 1) -> bytes:
    return framed(struct.pack(">4sHqB", magic, version, server_id, purpose))


def notification(
    sender: int, *, role: int = 1, round_: int = 1, epoch: int = 0, zxid: int = 0, leader: int = 1
) -> bytes:
    return framed(struct.pack(">qBqqqqB", sender, role, round_, epoch, zxid, leader, 0))


STRANGERS: dict[str, bytes] = {
    "garbage": bytes(range(256)),
    "a word": b"srvr",
    "a client's connect request": framed(bytes(45)),
    "another magic": hello(2, LINK, magic=b"KTTO"),
    "another version": hello(2, LINK, version=99),
    "an unknown purpose": hello(2, 77),
    "a server id that is no member": hello(99, LINK),
    "a negative server id": hello(-1, LINK),
    "the other port's greeting": hello(2, ELECTION),
    "a greeting of 2 GB": int_(2**31 - 1) + b"OTTK",
    "a greeting of negative length": int_(-1) + b"OTTK",
    "an empty greeting": int_(0),
    "ZooKeeper's own election greeting": struct.pack(">qqi", -65536, 4, 15) + b"127.0.0.1:12345",
}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with OttlaKeepers(3, tmp_path_factory.mktemp("hostile")) as three:
        # Without a write the zxid says nothing about the epoch.
        writes_succeed(three)
        yield three


def epoch(ensemble: Ensemble) -> int:
    """The epoch of the ensemble: it changes only by an election."""
    for line in four_letter_word(ensemble.client_ports[ensemble.leader()], "srvr").splitlines():
        if line.startswith("Zxid: "):
            return int(line.removeprefix("Zxid: "), 16) >> 32
    raise AssertionError("srvr shows no zxid")


def writes_succeed(ensemble: Ensemble) -> None:
    for port in ensemble.client_ports:
        client = opened(port)
        answer = client.call(raw.CREATE, string("/written-") + buffer(b"") + raw.OPEN_ACL + int_(2))
        assert answer["err"] == 0
        client.call(raw.CLOSE_SESSION)
        client.close()


@pytest.mark.parametrize("port", ["quorum", "election"])
@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_shut_out(ensemble: Ensemble, name: str, port: str) -> None:
    data = STRANGERS[name]
    if port == "election" and name == "the other port's greeting":
        data = hello(2, LINK)
    leader, before = ensemble.leader(), epoch(ensemble)
    ports = ensemble.quorum_ports if port == "quorum" else ensemble.election_ports
    with Undisturbed(ensemble, leader):
        connections = []
        for _ in range(PARALLEL):
            connection = Connection(ports[leader])
            connections.append(connection)
            with suppress(ClosedError):
                connection.send(data)
        for connection in connections:
            closes(connection)
    assert epoch(ensemble) == before
    writes_succeed(ensemble)


def test_the_servers_own_id_is_shut_out(ensemble: Ensemble) -> None:
    leader, before = ensemble.leader(), epoch(ensemble)
    with Undisturbed(ensemble, leader):
        for port, purpose in ((ensemble.quorum_ports[leader], LINK), (ensemble.election_ports[leader], ELECTION)):
            connection = Connection(port)
            connection.send(hello(leader + 1, purpose))
            closes(connection)
    assert epoch(ensemble) == before


@pytest.mark.parametrize("port", ["quorum", "election"])
def test_callers_that_say_nothing_block_nobody(ensemble: Ensemble, port: str) -> None:
    leader, before = ensemble.leader(), epoch(ensemble)
    ports = ensemble.quorum_ports if port == "quorum" else ensemble.election_ports
    with Undisturbed(ensemble, leader):
        silent = [Connection(ports[leader]) for _ in range(200)]
        for connection in silent[:50]:
            connection.send(int_(15)[:3])
        writes_succeed(ensemble)
        for connection in silent:
            closes(connection)
    assert epoch(ensemble) == before


def test_notifications_that_are_none_end_their_connection(ensemble: Ensemble) -> None:
    leader, before = ensemble.leader(), epoch(ensemble)
    member = 1 + (leader + 1) % 3
    bad = {
        "too long": int_(1 << 20) + bytes(2000),
        "longer than can be": int_(2**31 - 1),
        "too short": framed(b"\x00" * 5),
        "another server's": notification(1 + (leader + 2) % 3),
        "a stranger's": notification(77),
        "in no role": notification(member, role=200),
    }
    with Undisturbed(ensemble, leader):
        for data in bad.values():
            connection = Connection(ensemble.election_ports[leader])
            connection.send(hello(member, ELECTION) + data)
            closes(connection)
    assert epoch(ensemble) == before
    writes_succeed(ensemble)


def test_a_flood_of_notifications_is_borne(ensemble: Ensemble) -> None:
    leader = ensemble.leader()
    member = 1 + (leader + 1) % 3
    with Undisturbed(ensemble, leader, latency_max_s=0.1):
        connection = Connection(ensemble.election_ports[leader])
        connection.send(hello(member, ELECTION))
        for _ in range(100):
            connection.send(notification(member, round_=7, zxid=5) * 100)
        connection.close()
    writes_succeed(ensemble)


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 20))])
@pytest.mark.parametrize("target", ["leader", "follower"])
def test_nonsense_in_a_members_name_ends_no_server(ensemble: Ensemble, seed: int, target: str) -> None:
    """Whoever takes a member's id can disturb, but no message, in whatever order, may end a server or lose a write."""
    draw = Random(seed)
    index = ensemble.leader() if target == "leader" else ensemble.followers()[0]
    pids = [server.pid for server in ensemble.servers]
    keeper = opened(ensemble.client_ports[index])
    kept = keeper.call(raw.CREATE, string("/kept-") + buffer(b"kept") + raw.OPEN_ACL + int_(2))["path"]
    keeper.close()
    for _ in range(40):
        member = 1 + draw.choice([other for other in range(3) if other != index])
        with suppress(ClosedError, OSError), Connection(ensemble.quorum_ports[index]) as connection:
            connection.send(hello(member, LINK))
            for _ in range(draw.randint(1, 6)):
                body = bytes([draw.randint(0, 30)]) + draw.randbytes(draw.choice((0, 1, 8, 9, 16, 17, 25, 100)))
                connection.send(framed(body))
    assert [server.pid for server in ensemble.servers if server.running] == pids, ensemble.servers[index].tail()
    wait_until(lambda: all(ensemble.modes()), timeout_s=120, what="every server serves again")
    writes_succeed(ensemble)
    reader = opened(ensemble.client_ports[index])
    reader.call(raw.SYNC, string("/"))
    assert reader.call(raw.GET_DATA, string(str(kept)) + b"\x00")["data"] == b"kept"
    reader.call(raw.CLOSE_SESSION)
    reader.close()


def test_a_frame_that_never_ends_is_not_waited_for_in_memory(ensemble: Ensemble) -> None:
    leader = ensemble.leader()
    member = 1 + (leader + 1) % 3
    with Undisturbed(ensemble, leader):
        connections = [Connection(ensemble.quorum_ports[leader]) for _ in range(4)]
        for connection in connections:
            with suppress(ClosedError):
                connection.send(hello(member, LINK) + int_(60 << 20) + bytes(4 << 20))
        for connection in connections:
            connection.close()
    writes_succeed(ensemble)
