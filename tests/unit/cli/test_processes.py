from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.cli.processes import Identity, end, free_ports, identify, is_free, mode, started

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"


@contextmanager
def child(code: str = "print('x', flush=True); import time; time.sleep(60)") -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_this_process_is_alive() -> None:
    assert identify(os.getpid()).is_alive()


def test_a_process_that_has_ended_is_not_alive_even_before_it_is_collected() -> None:
    with child() as process:
        identity = identify(process.pid)
        assert identity.is_alive()
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not identity.is_alive()
        assert started(process.pid) is None
    assert not identify(process.pid).is_alive()


def test_a_number_that_was_reused_is_another_process() -> None:
    with child() as process:
        impostor = Identity(process.pid, identify(process.pid).started + 1)
        assert not impostor.is_alive()
        impostor.send(signal.SIGKILL)
        assert end([impostor], grace_s=0) == []
        assert process.poll() is None


def test_end_asks_before_it_kills() -> None:
    with child() as polite, child(STUBBORN) as stubborn:
        identities = [identify(polite.pid), identify(stubborn.pid)]
        assert end(identities, grace_s=2) == [identities[1]]
        assert polite.wait() == -signal.SIGTERM
        assert stubborn.wait() == -signal.SIGKILL


def test_free_ports_are_free_and_different() -> None:
    ports = free_ports("127.0.0.1", 20)
    assert len(set(ports)) == 20
    assert all(is_free("127.0.0.1", port) for port in ports)


def test_a_port_that_was_chosen_is_nobody_elses_choice_and_can_be_listened_on() -> None:
    (port,) = free_ports("127.0.0.1", 1)
    with socket.socket() as another, pytest.raises(OSError, match="in use"):
        another.bind(("127.0.0.1", port))
    for _ in range(2):  # and again, after a restart
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(server.getsockname()) as peer,
        ):
            server.accept()[0].close()
            assert peer.recv(1) == b""
            assert not is_free("127.0.0.1", port)


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free("127.0.0.1", server.getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"Zookeeper version: 3.9.5\nMode: leader\nNode count: 5\n", "leader"),
        (b"This ZooKeeper instance is not currently serving requests\n", None),
        (b"", None),
        (b"\xff\xfe", None),
    ],
)
def test_the_mode_of_a_keeper(answer: bytes, expected: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(4) == b"srvr"
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert mode("127.0.0.1", server.getsockname()[1], timeout_s=120) == expected
        thread.join()


def test_nobody_there_has_no_mode() -> None:
    assert mode("127.0.0.1", free_ports("127.0.0.1", 1)[0]) is None
