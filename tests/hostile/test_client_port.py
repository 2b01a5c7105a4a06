"""Hostile input on the client port: every case is answered or closed, and nobody else notices."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.compat import rawclient as raw
from tests.compat.rawclient import ClosedError, Connection, SilenceError, buffer, int_, long_, string, strings, vector
from tests.compat.steps import Generator, Send
from tests.hostile.oracle import MEMORY_GROWTH_MAX, Undisturbed, closes, opened
from tests.hostile.tls import shake_hands_in_vain
from tests.peers import Ensemble, OttlaKeepers, four_letter_word

MAX_BUFFER = 0xFFFFF
MARSHALLING, BAD_ARGUMENTS, NO_NODE = -5, -8, -101
PARALLEL = 16


SETTINGS = {"tickTime": "2000"}
PROPERTIES = {"zookeeper.extendedTypesEnabled": "true", "zookeeper.enforceQuota": "true"}


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("hostile"), settings=SETTINGS, properties=PROPERTIES) as ensemble:
        yield ensemble


def connect_frame(password: bytes, *, session: int = 0, tail: bytes = b"\x00") -> bytes:
    return int_(0) + long_(0) + int_(30_000) + long_(session) + password + tail


FIRST_BYTES: dict[str, bytes] = {
    "length -1": int_(-1),
    "length of the smallest number": int_(-(2**31)),
    "length of the largest number": int_(2**31 - 1) + bytes(100),
    "length just beyond jute.maxbuffer": int_(MAX_BUFFER + 1025) + bytes(5000),
    "length 0": int_(0),
    "a connect request cut short": int_(10) + bytes(10),
    "a password longer than the frame": int_(29) + connect_frame(int_(2**31 - 1)),
    "a password of negative length": int_(29) + connect_frame(int_(-5)),
    "a request before any session": int_(13) + int_(1) + int_(raw.GET_DATA) + string("/"),
    "a word nobody knows": b"what",
    "a request of another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", FIRST_BYTES)
def test_first_bytes_that_are_no_connect_request_are_closed(keeper: Ensemble, name: str) -> None:
    with Undisturbed(keeper):
        connections = [Connection(keeper.client_ports[0]) for _ in range(PARALLEL)]
        for connection in connections:
            with suppress(ClosedError):
                connection.send(FIRST_BYTES[name])
        for connection in connections:
            closes(connection)


def test_tls_on_the_plain_port_is_closed(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        shake_hands_in_vain(keeper.client_ports[0], times=PARALLEL)


def test_a_giant_password_is_no_session(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        for _ in range(PARALLEL):
            connection = Connection(keeper.client_ports[0])
            connection.send_frame(connect_frame(buffer(bytes(900_000)), session=0x1234))
            closes(connection)


def test_a_foreign_session_is_not_taken_over_with_a_wrong_password(keeper: Ensemble) -> None:
    owner = Connection(keeper.client_ports[0])
    session = owner.connect()
    with Undisturbed(keeper):
        for password in (bytes(16), b"", None, b"x" * 16, session.password[:15], session.password + b"\x00"):
            thief = Connection(keeper.client_ports[0])
            refused = thief.connect(session=session.id, password=password)
            assert (refused.id, refused.timeout_ms) == (0, 0)
            closes(thief)
    again = Connection(keeper.client_ports[0])
    assert again.connect(session=session.id, password=session.password).id == session.id
    again.call(raw.CLOSE_SESSION)
    again.close()
    owner.close()


LIMITED = ["stat", "mntr", "cons", "conf", "envi", "dump", "wchs", "wchc", "wchp", "crst", "srst", "ruok"]


def test_only_allowed_words_are_answered(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path, settings={"4lw.commands.whitelist": "srvr"}) as limited, Undisturbed(limited):
        for word in LIMITED:
            answer = four_letter_word(limited.client_ports[0], word)
            assert answer == f"{word} is not executed because it is not in the whitelist.\n"
        assert four_letter_word(limited.client_ports[0], "srvr").startswith("Zookeeper version: ")


def test_one_address_gets_no_more_than_its_share_of_connections(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path, settings={"maxClientCnxns": "20"}) as limited, Undisturbed(limited):
        kept: list[Connection] = []
        refused = 0
        for _ in range(60):
            connection = Connection(limited.client_ports[0], timeout_s=60)
            try:
                connection.connect()
                kept.append(connection)
            except ClosedError:
                connection.close()
                refused += 1
        assert len(kept) == 19, "the one that does nothing wrong has the twentieth"
        assert refused == 41
        for connection in kept:
            connection.close()


BAD_PATHS: dict[str, bytes] = {
    "empty": b"",
    "relative": b"a",
    "two slashes": b"//",
    "a slash at the end": b"/nobody/",
    "an empty name": b"/nobody//b",
    "dot": b"/nobody/./b",
    "dot dot": b"/nobody/../b",
    "NUL": b"/a\x00b",
    "a control character": b"/a\x1fb",
    "no UTF-8": b"/\xff\xfe\xfd",
    "half a surrogate pair": b"/\xed\xa0\x80",
    "private use": "/\ue000".encode(),
}


@pytest.mark.parametrize("name", BAD_PATHS)
def test_paths_that_are_none_are_refused(keeper: Ensemble, name: str) -> None:
    path = buffer(BAD_PATHS[name])
    with Undisturbed(keeper):
        connection = opened(keeper.client_ports[0])
        created = connection.call(raw.CREATE, path + buffer(b"") + raw.OPEN_ACL + int_(0))
        assert created["err"] in (BAD_ARGUMENTS, MARSHALLING, NO_NODE, -110), created
        for opcode, tail in ((raw.GET_DATA, b"\x01"), (raw.EXISTS, b"\x01"), (raw.DELETE, int_(-1))):
            connection.call(opcode, path + tail)
        assert connection.call(raw.WHO_AM_I)["err"] == 0
        connection.call(raw.CLOSE_SESSION)
        connection.close()


@pytest.mark.parametrize("path", ["/" + "n" * 900_000, "/n" * 400_000], ids=["one name", "many names"])
def test_a_path_of_a_megabyte_is_answered(keeper: Ensemble, path: str) -> None:
    with Undisturbed(keeper):
        connection = opened(keeper.client_ports[0])
        for opcode, tail in (
            (raw.GET_DATA, b"\x01"),
            (raw.EXISTS, b"\x01"),
            (raw.GET_ALL_CHILDREN_NUMBER, b""),
            (raw.ADD_WATCH, int_(1)),
            (raw.REMOVE_WATCHES, int_(3)),
            (raw.DELETE, int_(-1)),
        ):
            assert "err" in connection.call(opcode, string(path) + tail)
        connection.call(raw.CLOSE_SESSION)
        connection.close()


IMPOSSIBLE: dict[str, tuple[int, bytes]] = {
    "a path of 2 GB": (raw.GET_DATA, int_(2**31 - 1) + b"/"),
    "a path of negative length": (raw.GET_DATA, int_(-7) + b"/"),
    "no body": (raw.CREATE, b""),
    "two billion ACLs": (raw.CREATE, string("/x") + buffer(b"") + int_(2**31 - 1) + bytes(100)),
    "minus two ACLs": (raw.CREATE, string("/x") + buffer(b"") + int_(-2) + int_(0)),
    "ten million paths to watch": (raw.SET_WATCHES, long_(0) + int_(10_000_000) + bytes(1000)),
    "data longer than the frame": (raw.SET_DATA, string("/x") + int_(1 << 30) + b"x"),
    "a multi without an end": (raw.MULTI, int_(raw.CHECK) + b"\x00" + int_(-1) + string("/") + int_(-1)),
    "a multi in a multi": (raw.MULTI, (int_(raw.MULTI) + b"\x00" + int_(-1)) * 50_000),
    "a scheme of 2 GB": (raw.SET_ACL, string("/x") + int_(1) + int_(31) + int_(2**31 - 1)),
    "a reconfiguration of nothing": (raw.RECONFIG, b"\xff" * 20),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_request_with_impossible_lengths_is_refused(keeper: Ensemble, name: str) -> None:
    opcode, body = IMPOSSIBLE[name]
    with Undisturbed(keeper):
        connections = [opened(keeper.client_ports[0]) for _ in range(PARALLEL)]
        sent = [connection.request(opcode, body) for connection in connections]
        for connection, _xid in zip(connections, sent, strict=True):
            with suppress(ClosedError):
                reply = dict(raw.decode_reply(0, connection.receive()))
                assert reply["err"] != 0
                connection.call(raw.CLOSE_SESSION)
            connection.close()


def test_auth_of_two_gigabytes_is_refused(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        for body in (int_(0) + int_(2**31 - 1), int_(0) + string("digest") + int_(2**31 - 1) + b"x", b""):
            connection = opened(keeper.client_ports[0])
            connection.request(raw.AUTH, body)
            with suppress(ClosedError):
                assert dict(raw.decode_reply(0, connection.receive()))["err"] != 0
            connection.close()


END_OF_MULTI = int_(-1) + b"\x01" + int_(-1)


def _checks(count: int) -> bytes:
    one = int_(raw.CHECK) + b"\x00" + int_(-1) + string("/") + int_(-1)
    return one * count + END_OF_MULTI


def _changes(count: int) -> bytes:
    one = int_(raw.SET_DATA) + b"\x00" + int_(-1) + string("/") + buffer(None) + int_(-1)
    return one * count + END_OF_MULTI


def _creations(count: int) -> bytes:
    head, tail = int_(raw.CREATE) + b"\x00" + int_(-1), buffer(None) + raw.OPEN_ACL + int_(0)
    return b"".join(head + string(f"/n{number:x}") + tail for number in range(count)) + END_OF_MULTI


def _deletions(count: int) -> bytes:
    head = int_(raw.DELETE) + b"\x00" + int_(-1)
    return b"".join(head + string(f"/n{number:x}") + int_(-1) for number in range(count)) + END_OF_MULTI


LARGEST_MULTIS: dict[str, bytes] = {
    "checks": _checks(55_000),
    "changes of one node": _changes(47_600),
    "creations": _creations(17_500),
    "deletions of what was created": _deletions(17_500),
}
"""Each as many operations of its kind as jute.maxbuffer allows; the last cleans up behind the one before."""


@pytest.mark.alone  # a multi holds the loop for a third of what is allowed: twice that beside another test
def test_multis_as_large_as_the_limit_allows_are_answered(keeper: Ensemble) -> None:
    # A multi is prepared in one turn of the loop and applied in another, and the others wait for either.
    with Undisturbed(keeper):
        connection = opened(keeper.client_ports[0])
        for name, body in LARGEST_MULTIS.items():
            assert connection.call(raw.MULTI, body)["err"] == 0, name
        connection.call(raw.CLOSE_SESSION)
        connection.close()


def test_a_multi_of_a_hundred_thousand_operations_is_too_long(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        connection = opened(keeper.client_ports[0])
        with suppress(ClosedError):
            connection.request(raw.MULTI, _checks(100_000))
        closes(connection)


def _many_children(connection: Connection, parent: str, count: int) -> None:
    connection.call(raw.CREATE, string(parent) + buffer(b"") + raw.OPEN_ACL + int_(0))
    for start in range(0, count, 2000):
        body = bytearray()
        for number in range(start, min(start + 2000, count)):
            body += int_(raw.CREATE) + b"\x00" + int_(-1)
            body += string(f"{parent}/{number:07d}") + buffer(b"") + raw.OPEN_ACL + int_(0)
        body += int_(-1) + b"\x01" + int_(-1)
        connection.call(raw.MULTI, bytes(body))


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_node_with_very_many_children_is_listed(tmp_path: Path, count: int) -> None:
    with OttlaKeepers(1, tmp_path, settings={"tickTime": "2000"}) as own:
        maker = opened(own.client_ports[0])
        maker.timeout_s = 60
        _many_children(maker, "/many", count)
        # The answer itself is 11 bytes a name, and may be held once for each client that asks.
        room = 32 << 20 if count < 100_000 else 200 << 20
        with Undisturbed(own, memory_max=room, latency_max_s=0.05 if count < 100_000 else 2.0):
            clients = [opened(own.client_ports[0]) for _ in range(2)]
            for client in clients:
                client.request(raw.GET_CHILDREN, string("/many") + b"\x01")
            for client in clients:
                client.timeout_s = 60
                assert len(client.receive()) > 11 * count
                client.close()
        maker.close()


def _read_all(connection: Connection, count: int) -> None:
    for _ in range(count):
        connection.receive()


def test_a_hundred_thousand_watches_of_one_client_are_held(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path, settings={"tickTime": "2000"}) as own, Undisturbed(own) as oracle:
        client = opened(own.client_ports[0])
        for start in range(0, 100_000, 500):
            batch = bytearray()
            for number in range(start, start + 500):
                body = int_(number + 1) + int_(raw.EXISTS) + string(f"/watched/{number:06d}") + b"\x01"
                batch += int_(len(body)) + body
            client.send(bytes(batch))
            _read_all(client, 500)
        assert "100000" in four_letter_word(own.client_ports[0], "wchs")
        held = own.servers[0].resident_bytes() - oracle.memory
        assert held < MEMORY_GROWTH_MAX, f"the watches hold {held / 1e6:.1f} MB"
        client.call(raw.CLOSE_SESSION)
        client.close()
        assert "Total watches:0" in four_letter_word(own.client_ports[0], "wchs")


def test_a_flood_of_set_watches_is_borne(keeper: Ensemble) -> None:
    paths = [f"/flood/{number:06d}" for number in range(40_000)]
    body = long_(0) + strings(paths) + strings([]) + strings([]) + strings([]) + strings([])
    with Undisturbed(keeper, latency_max_s=0.1):
        client = opened(keeper.client_ports[0])
        for _ in range(5):
            client.request(raw.SET_WATCHES2, body)
            # The nodes do not exist: each watch is answered with an event that says so.
            while True:
                frame = client.receive()
                if int.from_bytes(frame[:4], "big", signed=True) == raw.SET_WATCHES_XID:
                    break
        client.call(raw.CLOSE_SESSION)
        client.close()


def test_a_flood_of_identities_is_borne(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        client = opened(keeper.client_ports[0])
        for start in range(0, 20_000, 500):
            batch = bytearray()
            for number in range(start, start + 500):
                body = int_(raw.AUTH_XID) + int_(raw.AUTH) + int_(0) + string("digest")
                body += buffer(f"user{number}:password".encode())
                batch += int_(len(body)) + body
            try:
                client.send(bytes(batch))
                _read_all(client, 500)
            except ClosedError:
                break
        client.close()


def test_replies_that_nobody_reads_are_not_piled_up(keeper: Ensemble) -> None:
    owner = opened(keeper.client_ports[0])
    owner.call(raw.CREATE, string("/unread") + buffer(bytes(20_000)) + raw.OPEN_ACL + int_(0))
    one = int_(1) + int_(raw.GET_DATA) + string("/unread") + b"\x00"
    request = int_(len(one)) + one
    with Undisturbed(keeper):
        client = opened(keeper.client_ports[0])
        client.socket.settimeout(1.0)
        # 100,000 answers would be 2 GB. The server stops reading long before, and then so does our sending.
        with suppress(TimeoutError, OSError):
            client.socket.sendall(request * 100_000)
        client.close()
    owner.call(raw.DELETE, string("/unread") + int_(-1))
    owner.call(raw.CLOSE_SESSION)
    owner.close()


def test_a_frame_that_comes_byte_by_byte_keeps_nobody_waiting(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        slow = [Connection(keeper.client_ports[0]) for _ in range(200)]
        frame = int_(44) + connect_frame(buffer(bytes(16)))
        for byte in frame[:20]:
            for connection in slow:
                connection.send(bytes([byte]))
        for connection in slow:
            connection.close()


@pytest.mark.long
def test_a_connection_that_says_nothing_is_closed(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        silent = [Connection(keeper.client_ports[0]) for _ in range(20)]
        silent[1].send(int_(44)[:2])
        silent[2].send(int_(44) + bytes(10))
        for connection in silent:
            closes(connection, within_s=120)


def test_two_thousand_connections_come_and_go(keeper: Ensemble) -> None:
    with Undisturbed(keeper):
        for number in range(2000):
            connection = socket.create_connection(("127.0.0.1", keeper.client_ports[0]), timeout=60)
            if number % 3 == 0:
                connection.sendall(int_(44))
            if number % 5 == 0:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


def _mutated(draw: Random, frame: bytes) -> bytes:
    """One of a few small injuries."""
    data = bytearray(frame)
    for _ in range(draw.randint(1, 4)):
        kind = draw.randrange(4)
        at = draw.randrange(len(data)) if data else 0
        if kind == 0 and data:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and len(data) > 4:
            data[at : at + 4] = struct.pack(">I", draw.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 255, 65536)))
        elif kind == 2:
            del data[at:]
        else:
            data[at:at] = draw.randbytes(draw.randint(1, 20))
    return bytes(data)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 20))])
def test_injured_requests_are_answered_or_closed(tmp_path: Path, seed: int) -> None:
    # On a server of their own: some of them close nodes, the root too, to everybody.
    with OttlaKeepers(1, tmp_path, settings=SETTINGS, properties=PROPERTIES) as own:
        _injure(own, seed)


def _injure(keeper: Ensemble, seed: int) -> None:
    draw, steps = Random(seed), Generator(seed).steps(1500)
    requests = [request for step in steps if isinstance(step, Send) for request in step.requests]
    with Undisturbed(keeper):
        client: Connection | None = None
        for request in requests:
            body = b"".join(part if isinstance(part, bytes) else long_(0) for part in request.parts)
            frame = _mutated(draw, int_(draw.randint(1, 1000)) + int_(request.opcode) + body)
            if client is None:
                client = opened(keeper.client_ports[0])
            try:
                client.send_frame(frame)
                client.receive(timeout_s=0.05)
            except ClosedError:
                client.close()
                client = None
            except SilenceError:
                continue
        if client is not None:
            client.close()


def create(path: str, data: bytes | None) -> tuple[int, bytes]:
    return raw.CREATE, string(path) + buffer(data) + raw.OPEN_ACL + int_(0)


KILLERS: dict[str, list[tuple[int, bytes]]] = {
    "null statistics": [
        create("/zookeeper/quota/q", b""),
        create("/zookeeper/quota/q/zookeeper_limits", b"count=5,bytes=-1"),
        create("/zookeeper/quota/q/zookeeper_stats", None),
        create("/q", b""),
        (raw.SET_DATA, string("/q") + buffer(b"x") + int_(-1)),
    ],
    "statistics that are none": [
        create("/zookeeper/quota/r", b""),
        create("/zookeeper/quota/r/zookeeper_limits", b"count=5,bytes=-1"),
        create("/zookeeper/quota/r/zookeeper_stats", b"nonsense"),
        create("/r", b""),
        (raw.SET_DATA, string("/r") + buffer(b"x") + int_(-1)),
    ],
    "a TTL that is none": [
        (raw.CREATE_TTL, string("/ttl") + buffer(b"") + raw.OPEN_ACL + int_(0) + long_(-1)),
        (raw.CREATE_TTL, string("/ttl") + buffer(b"") + raw.OPEN_ACL + int_(5) + long_(2**62)),
    ],
    "a multi that cannot be read": [
        (raw.MULTI, int_(raw.CREATE) + b"\x00" + int_(-1) + string("/m") + buffer(b"") + vector(None) + int_(0)),
        (raw.MULTI, int_(raw.GET_DATA) + b"\x00" + int_(-1) + string("/m") + b"\x00" + int_(-1) + b"\x01" + int_(-1)),
    ],
    "a write that cannot be read": [
        (raw.SET_DATA, int_(2**31 - 1)),
        (raw.CREATE, string("/m")[:5]),
    ],
}


@pytest.mark.parametrize("servers", [1, 3])
def test_what_ends_a_zookeeper_does_not_end_us(tmp_path: Path, servers: int) -> None:
    """Each of these stops or stalls an Apache ZooKeeper 3.9.5, alone or in an ensemble."""
    with OttlaKeepers(servers, tmp_path, settings={"tickTime": "2000"}) as own:
        for index in range(servers):
            with Undisturbed(own, index):
                for requests in KILLERS.values():
                    connection = opened(own.client_ports[index])
                    for opcode, body in requests:
                        try:
                            connection.call(opcode, body)
                        except ClosedError:
                            connection.close()
                            connection = opened(own.client_ports[index])
                    answer = connection.call(raw.CREATE, string("/alive-") + buffer(b"") + raw.OPEN_ACL + int_(2))
                    assert answer["err"] == 0
                    connection.call(raw.CLOSE_SESSION)
                    connection.close()
