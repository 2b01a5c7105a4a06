"""The life of a broker's process, from its start to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.main import run
from ottla.log.directory import CLEAN_SHUTDOWN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_broker_that_waits_for_its_ensemble_stops_when_it_is_told_to(number: int, tmp_path: Path) -> None:
    @asynccontextmanager
    async def signaled() -> AsyncIterator[asyncio.Event]:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        yield asyncio.Event()

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        settings = {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{nobody.getsockname()[1]}",
            "zookeeper.connection.timeout.ms": "60000",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
        }
        assert run(BrokerConfig(settings), beside=signaled) == 0
    assert not (tmp_path / CLEAN_SHUTDOWN).exists(), "nothing was loaded that could be known to be whole"
