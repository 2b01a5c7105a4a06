"""``max.connections``: who comes too late waits and is served, also when the limit changes meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from tests.compat.brokerpair import Side
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers

LIMIT = "listener.name.plaintext.max.connections"


def is_served(side: Side) -> bool:
    return isinstance(side.ask(MetadataRequest(topics=[]), 12), MetadataResponse)


def test_who_comes_too_late_is_served_when_there_is_room(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(1, keepers.hosts, tmp_path) as brokers:
        [port] = brokers.ports
        before = Side("before", port)
        assert is_served(before)
        change(brokers.bootstrap, "1")
        with socket.create_connection(("127.0.0.1", port)) as waiting:
            waiting.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff".replace(" ", "")))
            waiting.settimeout(1)
            with pytest.raises(TimeoutError):
                waiting.recv(100)
            assert is_served(before)
            before.close()
            waiting.settimeout(60)
            assert waiting.recv(100)[4:8] == b"\0\0\0\7"
        after = Side("after", port)
        assert is_served(after)
        after.close()


def change(bootstrap: str, value: str) -> None:
    entry = ConfigEntry(LIMIT, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(120)
