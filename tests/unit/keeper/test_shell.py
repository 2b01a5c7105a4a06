"""A keeper's sockets and files are what its settings say."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from struct import Struct

import pytest

from ottla.base.errors import ConfigError
from ottla.keeper.config import KeeperConfig
from ottla.keeper.shell import KeeperServer

LISTENING_INFO = Struct("=28xI")
"""Of Linux's tcp_info; in a socket that listens, this field is how many connections may wait."""


def backlog(folder: Path, **settings: str) -> int:
    async def started() -> int:
        properties = {"dataDir": str(folder), "clientPort": "0", "clientPortAddress": "127.0.0.1", **settings}
        server = KeeperServer(KeeperConfig.from_properties(properties))
        await server.start()
        try:
            assert server.listener._server is not None
            info = server.listener._server.sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
            waiting: int = LISTENING_INFO.unpack(info)[0]
            return waiting
        finally:
            await server.stop()

    return asyncio.run(started())


def test_as_many_connections_may_wait_as_the_settings_say(tmp_path: Path) -> None:
    assert backlog(tmp_path, clientPortListenBacklog="7") == 7
    assert backlog(tmp_path) > 7


@pytest.mark.parametrize("key", ["dataDir", "dataLogDir"])
def test_a_directory_that_cannot_be_made_is_named_with_its_key(tmp_path: Path, key: str) -> None:
    properties = {"dataDir": str(tmp_path), "clientPort": "0", "clientPortAddress": "127.0.0.1", key: "/proc/nowhere"}
    config = KeeperConfig.from_properties(properties)
    with pytest.raises(ConfigError, match=rf"^{key}=/proc/nowhere: .* cannot be made: "):
        asyncio.run(KeeperServer(config).start())
