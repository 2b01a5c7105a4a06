"""Wires alone, between ends that are sockets of the test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.testing.wires import HOST, Wire, Wires, free_port
from tests.peers import wait_until


@pytest.fixture
def wires(tmp_path: Path) -> Iterator[Wires]:
    laid = Wires(tmp_path)
    yield laid
    laid.close()


def call(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=60)


def is_refused(port: int) -> bool:
    try:
        call(port).close()
    except ConnectionRefusedError:
        return True
    return False


def passes(port: int, far: socket.socket) -> bool:
    """Whether what is said at one end of a wire is heard at the other."""
    with suppress(ConnectionError), call(port) as near:
        near.sendall(b"word")
        answering, _ = far.accept()
        with answering:
            return answering.recv(4, socket.MSG_WAITALL) == b"word"
    return False


def test_a_wire_to_nobody_refuses_and_passes_on_once_somebody_is_there(wires: Wires) -> None:
    far = free_port()
    port = wires.lay(Wire((HOST, far), 1, is_of_broker=True))
    wait_until(lambda: is_refused(port), timeout_s=60, what="the wire refuses", interval_s=0.01)
    with socket.create_server((HOST, far)) as listening:
        listening.settimeout(60)
        wait_until(lambda: not is_refused(port), timeout_s=60, what="the wire is back", interval_s=0.01)
        while not passes(port, listening):  # those that only looked are in the queue before
            pass


def test_a_keepers_wire_does_not_look_for_who_calls(wires: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: list[int] = []

    def caller(port: int, _wire_port: int) -> int:
        looked_for.append(port)
        return -1

    monkeypatch.setattr(wires, "_caller", caller)
    with socket.create_server((HOST, 0)) as far:
        assert passes(wires.lay(Wire(far.getsockname(), 1, is_of_broker=False)), far)
        assert looked_for == []
        assert passes(wires.lay(Wire(far.getsockname(), 1, is_of_broker=True)), far)
        assert len(looked_for) == 1


def test_a_wire_that_is_cut_takes_what_is_said_and_tells_nobody(wires: Wires) -> None:
    with socket.create_server((HOST, 0)) as far:
        far.setblocking(False)
        port = wires.lay(Wire(far.getsockname(), 1, is_of_broker=False))
        wires.cut([1])
        with call(port) as near:
            near.sendall(b"word")
            with pytest.raises(BlockingIOError):
                far.accept()
            far.settimeout(60)
            wires.cut([])
            answering, _ = far.accept()
            with answering:
                assert answering.recv(4, socket.MSG_WAITALL) == b"word"
