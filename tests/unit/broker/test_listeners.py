"""Listeners come, go and are told otherwise while a broker runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.ports import ListenerPort, Ports
from ottla.metadata.errors import InvalidConfigError
from ottla.net import Connection
from tests.peers.processes import free_ports

PROTOCOLS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,OUT:PLAINTEXT"}


def config(**settings: str) -> BrokerConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerConfig({"broker.id": "1", "zookeeper.connect": "h:1", **PROTOCOLS, **named})


class Greeting(Connection):
    """Says the name of its listener."""

    def __init__(self, port: ListenerPort) -> None:
        super().__init__(frame_bytes_max=100)
        self._name = port.name

    def opened(self) -> None:
        self.write(self._name.encode())

    def received(self, frame: bytes) -> None:
        del frame

    def ended(self, error: Exception | None) -> None:
        del error


class Connected:
    """To a listener, until it is closed."""

    def __init__(self, listener: str, closed: list[str]) -> None:
        self.listener = listener
        self._closed = closed

    def close(self) -> None:
        self._closed.append(self.listener)


async def greeted(port: int) -> str | None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return None
    said = await reader.read(100)
    writer.close()
    await writer.wait_closed()
    return said.decode()


def play(made: BrokerConfig, story: Callable[[Ports, Callable[..., Awaitable[None]]], Awaitable[None]]) -> None:
    async def run() -> None:
        ports = Ports(made)
        await ports.open(Greeting)

        async def change(**settings: str) -> None:
            dynamic = {name.replace("_", "."): value for name, value in settings.items()}
            assert made.renew(dynamic_default={}, dynamic=dynamic)
            await ports.renew()

        try:
            async with asyncio.timeout(60):
                await story(ports, change)
        finally:
            ports.close()

    asyncio.run(run())


def told(ports: Ports) -> list[str]:
    return [f"{each.listener}://{each.host}:{each.port}" for each in ports.endpoints()]


def test_a_listener_that_is_new_is_opened_and_one_that_is_gone_is_closed() -> None:
    first, second, third = free_ports(3)
    own = f"PLAINTEXT://127.0.0.1:{first}"

    async def story(ports: Ports, change: Callable[..., Awaitable[None]]) -> None:
        await change(listeners=f"{own},IN://127.0.0.1:{second}")
        assert (await greeted(first), await greeted(second)) == ("PLAINTEXT", "IN")
        assert told(ports) == [own, f"IN://127.0.0.1:{second}"]
        closed: list[str] = []
        for name in ("PLAINTEXT", "IN"):
            ports.connections.add(cast("Any", Connected(name, closed)))
        await change(listeners=f"{own},OUT://127.0.0.1:{third}")
        assert (await greeted(first), await greeted(second), await greeted(third)) == ("PLAINTEXT", None, "OUT")
        assert closed == ["IN"]
        await change(listeners=f"{own},OUT://127.0.0.1:{second}")
        assert (await greeted(second), await greeted(third)) == ("OUT", None), "it has moved"
        assert closed == ["IN"]
        ports.connections.clear()

    play(config(listeners=own), story)


def test_a_listener_is_told_otherwise_and_keeps_its_socket() -> None:
    (port,) = free_ports(1)

    async def story(ports: Ports, change: Callable[..., Awaitable[None]]) -> None:
        (before,) = ports
        await change(advertised_listeners="PLAINTEXT://broker.example:19092")
        assert told(ports) == ["PLAINTEXT://broker.example:19092"]
        (after,) = ports
        assert after is before
        assert await greeted(port) == "PLAINTEXT"

    play(config(listeners=f"PLAINTEXT://127.0.0.1:{port}"), story)


def test_a_listener_that_cannot_be_opened_costs_nobody_else_anything() -> None:
    first, second, taken = free_ports(3)
    own = f"PLAINTEXT://127.0.0.1:{first}"

    async def story(ports: Ports, change: Callable[..., Awaitable[None]]) -> None:
        async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", taken):
            await change(listeners=f"{own},IN://127.0.0.1:{taken},OUT://127.0.0.1:{second}")
            assert told(ports) == [own, f"OUT://127.0.0.1:{second}"]
            assert await greeted(second) == "OUT"

    play(config(listeners=own), story)


def test_only_what_is_advertised_is_told() -> None:
    made = config(listeners="PLAINTEXT://127.0.0.1:1,IN://127.0.0.1:2", advertised_listeners="PLAINTEXT://127.0.0.1:1")
    assert [(each.name, each.is_advertised) for each in made.listeners] == [("PLAINTEXT", True), ("IN", False)]


IN = "PLAINTEXT://127.0.0.1:1,IN://127.0.0.1:2"


@pytest.mark.parametrize(
    ("settings", "reason"),
    # What Apache Kafka 3.9.1 answered.
    [
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,OTHER://127.0.0.1:2"},
            (
                "Error creating broker listeners from 'PLAINTEXT://127.0.0.1:1,OTHER://127.0.0.1:2': "
                "No security protocol defined for listener OTHER"
            ),
        ),
        (
            {"listeners": f"{IN},OUT://127.0.0.1:2"},
            (
                "requirement failed: If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"listeners: {IN},OUT://127.0.0.1:2, port: 2"
            ),
        ),
        (
            {"listeners": f"{IN},IN://127.0.0.1:3"},
            f"requirement failed: Each listener must have a different name, listeners: {IN},IN://127.0.0.1:3",
        ),
        (
            {"listeners": "IN://127.0.0.1:2"},
            (
                "requirement failed: inter.broker.listener.name must be a listener name defined in advertised.listeners. The "
                "valid options based on currently configured listeners are IN"
            ),
        ),
        (
            {"listeners": IN, "advertised.listeners": "IN://h:2"},
            (
                "requirement failed: inter.broker.listener.name must be a listener name defined in advertised.listeners. The "
                "valid options based on currently configured listeners are IN"
            ),
        ),
        (
            {"listeners": IN, "advertised.listeners": "PLAINTEXT://h:1,OUT://h:2"},
            (
                "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined in "
                "listeners. Found PLAINTEXT,OUT. The valid options based on the current configuration are PLAINTEXT,IN"
            ),
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            (
                "requirement failed: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP "
                "address."
            ),
        ),
        (
            {"advertised.listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"},
            "requirement failed: Each listener must have a different name, listeners: PLAINTEXT://h:1,PLAINTEXT://h:2",
        ),
        (
            {"listeners": "nonsense"},
            "Error creating broker listeners from 'nonsense': Unable to parse nonsense to a broker endpoint",
        ),
        (
            {"listeners": "", "advertised.listeners": "plaintext://h:1"},
            (
                "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined in "
                "listeners. Found PLAINTEXT. The valid options based on the current configuration are "
            ),
        ),
        (
            {"advertised.listeners": ""},
            "requirement failed: There must be at least one broker advertised listener.",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:SSL"},
            (
                "Invalid value org.apache.kafka.common.config.ConfigException: Security protocol cannot be updated for existing "
                "listener ListenerName(PLAINTEXT) for configuration Invalid dynamic configuration"
            ),
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:NONE"},
            "Invalid security protocol `NONE` defined in listener.security.protocol.map",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT"},
            "Error parsing configuration property 'listener.security.protocol.map': begin 0, end -1, length 9",
        ),
    ],
)
def test_what_listeners_cannot_be_changed_to_is_said_in_kafkas_words(settings: dict[str, str], reason: str) -> None:
    assert refused(settings) == reason


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:2"}, "moved or removed by a restart"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,IN://0.0.0.0:2"}, "can be reached from other machines"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,IN://127.0.0.1:99999"}, "listeners: IN: port out of range: 99999"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,IN://127.0.0.1:-1"}, "listeners: IN: port out of range: -1"),
        ({"advertised.listeners": "PLAINTEXT://h:65536"}, "advertised.listeners: PLAINTEXT: port out of range: 65536"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2"}, "SSL wants SSL, which this version"),
    ],
)
def test_what_only_this_broker_refuses(settings: dict[str, str], reason: str) -> None:
    mapped = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,SSL:SSL"}
    assert reason in refused({**mapped, **settings})


def test_names_of_listeners_are_in_capitals_and_one_port_is_shared_by_both_kinds_of_addresses() -> None:
    made = config(listeners="plaintext://127.0.0.1:1")
    made.check_listeners(
        {"listeners": "Plaintext://127.0.0.1:1,in://[::1]:1", "advertised.listeners": "plainText://h:1"}
    )


def refused(settings: dict[str, str]) -> str:
    made = config(listeners="PLAINTEXT://127.0.0.1:1")
    with pytest.raises(InvalidConfigError) as caught:
        made.check_listeners(settings)
    if "restart" not in str(caught.value):
        before = made.listeners
        made.renew(dynamic_default={}, dynamic=settings)
        assert made.listeners == before, "whoever wrote it, it is not believed"
    return str(caught.value)
