"""Four-letter words: what a server says about itself to ``echo srvr | nc host port``.

Keys, order and shape of every line are ZooKeeper's, so that whatever reads those reads these. A word is answered if
the whitelist allows it (``srvr`` always is), and most words only while the server serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla import __version__
from ottla.keeper.monitored import Monitored
from ottla.keeper.quorum.messages import Role
from ottla.keeper.server.clients import Client

ZOOKEEPER_VERSION = "3.9.5"
"""Whose behavior this is; tools decide by it what they may ask for."""
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"


def version() -> str:
    return f"{ZOOKEEPER_VERSION}-ottla-{__version__}, built on 2026-01-01 00:00 UTC"


def mode(server: Monitored) -> str:
    """``Mode`` of ``srvr``, ``zk_server_state`` of ``mntr``."""
    if server.member.frontend.upstream.read_only:
        return "read-only"
    if server.config.is_standalone:
        return "standalone"
    return _MODES[server.member.role.role]


_MODES = {Role.LEADING: "leader", Role.FOLLOWING: "follower", Role.OBSERVING: "observer", Role.LOOKING: "looking"}


def answer(word: str, server: Monitored) -> str | None:
    """The whole text to send before the connection is closed, or None if ``word`` is none."""
    command = _COMMANDS.get(word)
    if command is None:
        return None
    if not _is_allowed(word, server):
        return f"{word} is not executed because it is not in the whitelist.\n"
    if word in _ALWAYS or server.member.is_serving:
        return command(server)
    return NOT_SERVING


def _is_allowed(word: str, server: Monitored) -> bool:
    allowed = server.config.four_letter_words
    return word == "srvr" or "*" in allowed or word in allowed or (word == "isro" and server.config.read_only_enabled)


def ruok(_server: Monitored) -> str:
    return "imok"


def isro(server: Monitored) -> str:
    if not server.member.is_serving:
        return "null"
    return "ro" if server.member.frontend.upstream.read_only else "rw"


def srvr(server: Monitored) -> str:
    return "".join([*_title(server), *_summary(server)])


def stat(server: Monitored) -> str:
    clients = [f"{_brief(client)})\n" for client in _clients(server)]
    return "".join([*_title(server), "Clients:\n", *clients, "\n", *_summary(server)])


def _title(server: Monitored) -> Iterator[str]:
    yield f"Zookeeper version: {version()}\n"
    if server.member.frontend.upstream.read_only:
        yield "READ-ONLY mode; serving only read-only clients\n"


def _summary(server: Monitored) -> Iterator[str]:
    frontend, stats = server.member.frontend, server.member.stats
    latency = stats.latency
    yield f"Latency min/avg/max: {round(latency.min)}/{round(latency.average, 4)}/{round(latency.max)}\n"
    yield f"Received: {stats.packets_received}\n"
    yield f"Sent: {stats.packets_sent}\n"
    yield f"Connections: {server.connections}\n"
    yield f"Outstanding: {frontend.outstanding}\n"
    yield f"Zxid: 0x{frontend.tree.last_zxid:x}\n"
    yield f"Mode: {mode(server)}\n"
    yield f"Node count: {len(frontend.tree.nodes)}\n"


def mntr(server: Monitored) -> str:
    frontend, stats = server.member.frontend, server.member.stats
    latency = stats.latency
    values: dict[str, object] = {
        "version": version(),
        "server_state": mode(server),
        "num_alive_connections": server.connections,
        "avg_latency": round(latency.average, 4),
        "max_latency": round(latency.max),
        "min_latency": 0,
        "outstanding_requests": frontend.outstanding,
        "znode_count": len(frontend.tree.nodes),
        "packets_received": stats.packets_received,
        "packets_sent": stats.packets_sent,
    }
    return "".join(f"zk_{key}\t{value}\n" for key, value in values.items())


def _clients(server: Monitored) -> list[Client]:
    return sorted(server.member.frontend.clients, key=lambda client: (client.opened_ms, client.port))


def _brief(client: Client) -> str:
    return f" /{client.address}:{client.port}[1](queued={len(client.waiting)},recved={client.received},sent={client.sent}"


_COMMANDS: dict[str, Callable[[Monitored], str]] = {
    "ruok": ruok,
    "isro": isro,
    "srvr": srvr,
    "stat": stat,
    "mntr": mntr,
}
_ALWAYS = frozenset({"ruok", "isro"})
WORDS = frozenset(_COMMANDS)
