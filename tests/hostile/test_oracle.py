"""The oracle of these tests notices what it is there for."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.hostile.oracle import Undisturbed
from tests.peers import OttlaKeepers


def test_a_stalled_server_is_noticed(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path) as keeper,
        pytest.raises(AssertionError, match="the other client waited"),
        Undisturbed(keeper),
    ):
        keeper.pause(0)
        time.sleep(1.5)
        keeper.resume(0)


def test_a_server_that_ends_is_noticed(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path) as keeper,
        pytest.raises(AssertionError, match="the server ended"),
        Undisturbed(keeper),
    ):
        keeper.kill(0)


def test_file_descriptors_that_stay_are_noticed(tmp_path: Path) -> None:
    kept: list[socket.socket] = []
    with (
        OttlaKeepers(1, tmp_path) as keeper,
        pytest.raises(TimeoutError, match="open files"),
        Undisturbed(keeper, settle_s=1),
    ):
        kept += [socket.create_connection(("127.0.0.1", keeper.client_ports[0])) for _ in range(5)]
    for connection in kept:
        connection.close()


def test_memory_that_grows_is_noticed(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path) as keeper,
        pytest.raises(AssertionError, match="memory grew"),
        Undisturbed(keeper, memory_max=-1 << 30),
    ):
        pass
