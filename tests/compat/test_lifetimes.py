"""What ends by itself: sessions, ephemeral, container and TTL nodes; the same on a real ZooKeeper and on ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import rawclient as raw
from tests.compat.rawclient import OPEN_ACL, ClosedError, Connection, SilenceError, Zxid, buffer, int_, long_, string
from tests.peers import Ensemble, OttlaKeepers, RealZooKeeper, wait_until

pytestmark = pytest.mark.alone

OK, NO_NODE, SESSION_MOVED, SESSION_EXPIRED = 0, -101, -118, -112
TICK_MS = 300
PROPERTIES = {"zookeeper.extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "300"}
KINDS = {"zookeeper": RealZooKeeper, "ottla": OttlaKeepers}


SIDES = [(kind, size) for size in (1, 3) for kind in KINDS]
"""ZooKeeper's own part proves the tests, and need not be proved again each time."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((kind, size), id=f"{kind}-{size}", marks=[pytest.mark.long] if kind == "zookeeper" else [])
        for kind, size in SIDES
    ],
)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    kind, size = request.param
    folder: Path = tmp_path_factory.mktemp("lifetimes")
    with KINDS[kind](size, folder, settings={"tickTime": str(TICK_MS)}, properties=PROPERTIES) as ensemble:
        yield ensemble


def create(connection: Connection, path: str, *, flags: int = 0, data: bytes = b"") -> None:
    answer = connection.call(raw.CREATE, string(path) + buffer(data) + OPEN_ACL + int_(flags))
    assert answer["err"] == OK, answer


def exists(connection: Connection, path: str) -> bool:
    connection.call(raw.SYNC, string("/"))
    return connection.call(raw.EXISTS, string(path) + b"\x00")["err"] == OK


def observer(servers: Ensemble) -> Connection:
    connection = Connection(servers.client_ports[-1])
    connection.connect(timeout_ms=6000)
    return connection


def test_a_silent_session_expires_in_time_and_takes_its_ephemerals_at_once(servers: Ensemble) -> None:
    with observer(servers) as other, Connection(servers.client_ports[0]) as mortal:
        session = mortal.connect(timeout_ms=3000)
        assert session.timeout_ms == 3000
        for name in ("one", "two", "three"):
            create(mortal, f"/mortal-{name}", flags=1)
        create(mortal, "/immortal")
        other.call(raw.SYNC, string("/"))  # or the watch may see what was made before it
        other.call(raw.ADD_WATCH, string("/") + int_(1))
        last_sent = time.monotonic()
        mortal.call(raw.PING)
        silent_since = time.monotonic()
        events: list[dict[str, object]] = []
        while len(events) < 3:
            try:
                frame = other.receive(timeout_s=0.5)
            except SilenceError:
                assert time.monotonic() - silent_since < 60, "the session does not expire"
                other.request(raw.PING)
                continue
            if int.from_bytes(frame[:4], "big", signed=True) == raw.NOTIFICATION:
                events.append(dict(raw.decode_event(frame)))
        expired = time.monotonic()
        # Never early, and late by no more than two ticks and what a busy machine adds.
        assert expired - last_sent > 3.0 - 0.05, f"expired after {expired - last_sent:.2f} s"
        assert expired - silent_since < 3.0 + 2 * TICK_MS / 1000 + 10.0, f"expired after {expired - silent_since:.2f} s"
        assert sorted(str(event["path"]) for event in events) == ["/mortal-one", "/mortal-three", "/mortal-two"]
        assert {event["type"] for event in events} == {2}
        zxids = {event["zxid"] for event in events}
        assert len(zxids) == 1, "one transaction takes all of them"
        assert zxids != {Zxid(-1)}
        assert exists(other, "/immortal")
        other.call(raw.DELETE, string("/immortal") + int_(-1))
        other.call(raw.CLOSE_SESSION)


def test_an_expired_session_cannot_be_taken_up_again(servers: Ensemble) -> None:
    with Connection(servers.client_ports[0]) as mortal:
        session = mortal.connect(timeout_ms=600)

        def refused() -> bool:
            time.sleep(1.5)
            with Connection(servers.client_ports[-1]) as again:
                return again.connect(session=session.id, password=session.password).id == 0

        wait_until(refused, timeout_s=120, what="the session expires")


def test_pings_keep_a_session(servers: Ensemble) -> None:
    with observer(servers) as other, Connection(servers.client_ports[0]) as alive:
        alive.connect(timeout_ms=2400)  # longer than this process stands still between two pings
        create(alive, "/alive", flags=1)
        until = time.monotonic() + 5.5
        while time.monotonic() < until:
            alive.call(raw.PING)
            other.call(raw.PING)
            time.sleep(0.2)
        assert exists(other, "/alive")
        alive.call(raw.CLOSE_SESSION)
        assert not exists(other, "/alive")
        other.call(raw.CLOSE_SESSION)


def test_a_container_goes_when_its_last_child_went(servers: Ensemble) -> None:
    with observer(servers) as client:
        body = string("/container") + buffer(b"") + OPEN_ACL + int_(4)
        assert client.call(raw.CREATE_CONTAINER, body)["err"] == OK
        time.sleep(1.0)
        assert exists(client, "/container"), "it never had a child"
        create(client, "/container/child")
        time.sleep(1.0)
        assert exists(client, "/container")
        client.call(raw.DELETE, string("/container/child") + int_(-1))
        wait_until(lambda: not exists(client, "/container"), timeout_s=120, what="the container goes")
        client.call(raw.CLOSE_SESSION)


def test_a_node_with_a_time_to_live_goes_when_nobody_changes_it(servers: Ensemble) -> None:
    with observer(servers) as client:
        body = string("/fleeting") + buffer(b"") + OPEN_ACL + int_(5) + long_(3000)
        assert client.call(raw.CREATE_TTL, body)["err"] == OK
        created = changed = time.monotonic()
        while time.monotonic() < created + 4.0:
            changed = time.monotonic()
            client.call(raw.SET_DATA, string("/fleeting") + buffer(b"x") + int_(-1))
            time.sleep(0.3)
        assert exists(client, "/fleeting"), "it was changed all the time"
        wait_until(lambda: not exists(client, "/fleeting"), timeout_s=120, what="the node goes")
        assert time.monotonic() - changed > 2.9
        client.call(raw.CLOSE_SESSION)


def test_a_session_that_moved_is_served_at_its_new_server_only(servers: Ensemble) -> None:
    with Connection(servers.client_ports[0]) as before:
        session = before.connect(timeout_ms=6000)
        create(before, "/moving", flags=1)
        with Connection(servers.client_ports[-1]) as after:
            taken = after.connect(session=session.id, password=session.password)
            assert taken.id == session.id
            assert exists(after, "/moving")
            after.call(raw.SET_DATA, string("/moving") + buffer(b"after") + int_(-1))
            # The old connection writes nothing any more: it is told so, or it is gone.
            try:
                answer = before.call(raw.SET_DATA, string("/moving") + buffer(b"before") + int_(-1))
                assert answer["err"] in (SESSION_MOVED, SESSION_EXPIRED), answer
            except ClosedError:
                pass
            assert after.call(raw.GET_DATA, string("/moving") + b"\x00")["data"] == b"after"
            after.call(raw.CLOSE_SESSION)
