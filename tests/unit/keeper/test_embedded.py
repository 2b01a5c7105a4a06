"""A keeper inside this process: it ends when its disk does, starts again, and leaves nothing behind."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from ottla.base.errors import ConfigError
from ottla.keeper import Keeper
from tests.sim.wire import connect_frame


def opened_session(keeper: Keeper) -> bytes:
    """What a new client hears; nothing if the server ends instead."""
    with socket.create_connection(("127.0.0.1", keeper.port)) as client:
        frame = connect_frame(last_zxid=0, timeout_ms=10_000, session_id=0, password=bytes(16))
        client.sendall(len(frame).to_bytes(4, "big") + frame)
        try:
            return client.recv(1 << 10)
        except ConnectionResetError:
            return b""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_disk_that_fails_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_fd: int) -> NoReturn:
        raise OSError(errno.EIO, "the disk is gone")

    with Keeper(tmp_path) as keeper:
        monkeypatch.setattr(os, "fdatasync", broken)
        assert opened_session(keeper) == b""
        assert keeper._thread is not None
        keeper._thread.join(60)
        assert keeper.failed
        with pytest.raises(ConnectionRefusedError):
            opened_session(keeper)


def test_it_starts_again_with_its_data(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    for _ in range(2):
        with keeper:
            assert opened_session(keeper)
    assert sorted(file.name for file in (tmp_path / "version-2").glob("log.*")) == ["log.100000001", "log.200000001"]


def test_one_without_a_directory_starts_again_empty(temporary: Path) -> None:
    keeper = Keeper()
    for _ in range(2):
        with keeper:
            assert opened_session(keeper)
        assert list(temporary.iterdir()) == []


def test_it_is_not_started_twice(tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper, pytest.raises(AssertionError, match="started already"):
        keeper.start()


def test_where_it_was_is_known_when_it_has_stopped(tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper:
        port = keeper.port
    assert (keeper.port, keeper.address) == (port, f"127.0.0.1:{port}")


def test_one_that_cannot_start_leaves_no_directory(temporary: Path) -> None:
    with Keeper(temporary / "first") as first:
        second = Keeper(port=first.port)
        with pytest.raises(ConfigError, match="cannot listen"):
            second.start()
    assert [path.name for path in temporary.iterdir()] == ["first"]
