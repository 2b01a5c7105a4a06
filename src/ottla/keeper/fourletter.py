"""Four-letter words: what a server says about itself to ``echo srvr | nc host port``.

The keys, the order and the shape of the lines are ZooKeeper's, so that whatever reads those reads these. A word is
answered if the whitelist allows it, ``srvr`` always; most words have an answer only while the server serves.

Passwords and digests are in none of the answers: not in ``conf``, nor with the sessions that ``dump`` and ``cons`` list.

``srvr`` is how many learn that a server has started, so what the others need is imported when they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from time import gmtime, strftime

import ottla
from ottla.keeper.monitored import Monitored, mode_of
from ottla.keeper.peers import Role as PeerRole
from ottla.keeper.roles import LeaderUpstream
from ottla.keeper.server.clients import Client, State
from ottla.keeper.server.watches import Watcher, WatchTable

ZOOKEEPER_VERSION = "3.9.5"
"""Whose behavior this is; tools decide by it what they may ask for."""
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
NOT_KNOWN = "<NA>"
_MIB = 1 << 20


def answer(word: str, server: Monitored, argument: bytes = b"") -> str | None:
    """The whole text to send before the connection is closed, or None if ``word`` is not one of ``WORDS``."""
    command = _COMMANDS.get(word)
    if command is None:
        return None
    if not _is_allowed(word, server):
        return f"{word} is not executed because it is not in the whitelist.\n"
    if word not in _ALWAYS and not server.member.is_serving:
        return NOT_SERVING
    # Words are packets too, in ZooKeeper as here: the question is in its own answer, the answer in the next.
    server.member.stats.packets_received += 1
    if word == stmk.__name__:
        _set_trace_mask(server, argument)
    text = "".join(command(server))
    server.member.stats.packets_unasked += 1
    return text


def _is_allowed(word: str, server: Monitored) -> bool:
    allowed = server.config.four_letter_words
    # Clients ask isro themselves when they look for a server that takes writes again.
    return word == "srvr" or "*" in allowed or word in allowed or (word == "isro" and server.config.read_only_enabled)


@cache
def version() -> str:
    """A version of ZooKeeper's with ours behind it, and when this copy of the code was made."""
    built = strftime("%Y-%m-%d %H:%M UTC", gmtime(Path(ottla.__file__).stat().st_mtime))
    return f"{ZOOKEEPER_VERSION}-ottla-{ottla.__version__}, built on {built}"


# Is it there?


def ruok(_server: Monitored) -> Iterable[str]:
    return "imok"


def isro(server: Monitored) -> Iterable[str]:
    if not server.member.is_serving:
        return "null"
    return "ro" if server.member.frontend.upstream.read_only else "rw"


# How is it?


def srvr(server: Monitored) -> Iterator[str]:
    yield from _title(server)
    yield from _figures(server)


def stat(server: Monitored) -> Iterator[str]:
    yield from _title(server)
    yield "Clients:\n"
    for client in _clients(server):
        yield f"{_brief(client)})\n"
    yield "\n"
    yield from _figures(server)


def _title(server: Monitored) -> Iterator[str]:
    yield f"Zookeeper version: {version()}\n"
    if server.member.frontend.upstream.read_only:
        yield "READ-ONLY mode; serving only read-only clients\n"


def _figures(server: Monitored) -> Iterator[str]:
    frontend, stats, mode = server.member.frontend, server.member.stats, mode_of(server)
    latency = stats.latency
    yield f"Latency min/avg/max: {round(latency.min)}/{round(latency.average, 4)}/{round(latency.max)}\n"
    yield f"Received: {stats.packets_received}\n"
    yield f"Sent: {stats.packets_sent}\n"
    yield f"Connections: {server.connections}\n"
    yield f"Outstanding: {frontend.outstanding}\n"
    yield f"Zxid: 0x{frontend.tree.last_zxid:x}\n"
    yield f"Mode: {mode}\n"
    yield f"Node count: {len(frontend.tree.nodes) + 1}\n"
    if mode == "leader":
        sizes = stats.proposal_sizes
        yield f"Proposal sizes last/min/max: {sizes.last}/{sizes.min}/{sizes.max}\n"


def mntr(server: Monitored) -> Iterator[str]:
    from ottla.keeper.metrics import monitor

    role, mode = server.member.role, mode_of(server)
    yield f"zk_version\t{version()}\n"
    yield f"zk_server_state\t{mode}\n"
    if mode in ("leader", "follower", "observer"):
        yield f"zk_peer_state\t{role.role.name.lower()} - broadcast\n"
    if mode == "observer":
        yield f"zk_observer_master_id\t{role.leader}\n"
    for key, value in monitor(server):
        yield f"zk_{key}\t{value}\n"


def srst(server: Monitored) -> Iterable[str]:
    server.member.stats.reset()
    return "Server stats reset.\n"


# Who is connected?


def cons(server: Monitored) -> Iterator[str]:
    for client in _clients(server):
        yield f"{_brief(client)}{_detail(client)})\n"
    yield "\n"


def crst(server: Monitored) -> Iterable[str]:
    for client in server.member.frontend.clients:
        client.reset_counters()
    return "Connection stats reset.\n"


def _clients(server: Monitored) -> list[Client]:
    return sorted(server.member.frontend.clients, key=lambda client: (client.opened_ms, client.port))


def _brief(client: Client) -> str:
    """In brackets: whether the server reads from the connection now."""
    reads = 0 if client.paused or client.state is State.CONNECTING else 1
    queued = len(client.waiting) + len(client.backlog)
    return f" /{_endpoint(client)}[{reads}](queued={queued},recved={client.received},sent={client.sent}"


def _detail(client: Client) -> str:
    if not client.session_id:
        return ""
    average = client.latency_total_ms // client.latency_count if client.latency_count else 0
    last_cxid = f",lcxid=0x{client.last_cxid:x}" if client.last_cxid >= 0 else ""
    return (
        f",sid={_hex(client.session_id)},lop={client.last_op},est={client.opened_ms},to={client.timeout_ms}{last_cxid}"
        f",lzxid={_hex(client.last_zxid)},lresp={client.last_response_ms},llat={client.last_latency_ms}"
        f",minlat={client.latency_min_ms},avglat={average},maxlat={client.latency_max_ms}"
    )


def _endpoint(client: Client) -> str:
    return f"[{client.address}]:{client.port}" if ":" in client.address else f"{client.address}:{client.port}"


def _hex(number: int) -> str:
    return f"0x{number & (1 << 64) - 1:x}"


# Who watches what?


def wchs(server: Monitored) -> Iterator[str]:
    watches = _data_watches(server)
    yield f"{sum(1 for _ in watches.by_watcher())} connections watching {watches.paths} paths\n"
    yield f"Total watches:{len(watches)}\n"


def wchc(server: Monitored) -> Iterator[str]:
    for watcher, paths in _data_watches(server).by_watcher():
        yield f"{_session(watcher)}\n"
        yield from (f"\t{path}\n" for path in paths)
    yield "\n"


def wchp(server: Monitored) -> Iterator[str]:
    for path, watchers in _data_watches(server).by_path():
        yield f"{path}\n"
        yield from (f"\t{_session(watcher)}\n" for watcher in watchers)
    yield "\n"


def _data_watches(server: Monitored) -> WatchTable:
    """Watches on children are not listed, in ZooKeeper neither."""
    return server.member.frontend.tree.watches.data


def _session(watcher: Watcher) -> str:
    return _hex(watcher.session_id if isinstance(watcher, Client) else 0)


# Sessions, and what goes with them.


def dump(server: Monitored) -> Iterator[str]:
    frontend = server.member.frontend
    yield "SessionTracker dump:\n"
    upstream = frontend.upstream
    if isinstance(upstream, LeaderUpstream):
        deadline_of = upstream.tracker._expiry.deadline_ms
        yield from _expiries("Session", {_hex(id_): deadline_of(id_) for id_ in frontend.tree.sessions}, server)
    else:
        yield f"Global Sessions({len(frontend.tree.sessions)}):\n"
        for session_id, timeout_ms in sorted(frontend.tree.sessions.items()):
            yield f"{_hex(session_id)}\t{timeout_ms}ms\n"
    yield "ephemeral nodes dump:\n"
    yield f"Sessions with Ephemerals ({len(frontend.tree.ephemerals)}):\n"
    for session_id, paths in frontend.tree.ephemerals.items():
        yield f"{_hex(session_id)}:\n"
        yield from (f"\t{path}\n" for path in sorted(paths))
    yield "Connections dump:\n"
    connections = {
        f"ip: /{_endpoint(client)} sessionId: {_hex(client.session_id)}": _silence_ends_ms(client, server)
        for client in _clients(server)
    }
    yield from _expiries("Connections", connections, server)


def _silence_ends_ms(client: Client, server: Monitored) -> int:
    """When a client that stays silent loses its session; rounded up, since when it was heard is known only roughly."""
    interval_ms = server.config.sessionless_timeout_ms
    timeout_ms = client.timeout_ms or interval_ms
    return -(-(int(server.clock.monotonic() * 1000) + timeout_ms) // interval_ms) * interval_ms


def _expiries(of: str, deadlines: Mapping[str, int | None], server: Monitored) -> Iterator[str]:
    """Lines by deadline, the earliest first."""
    by_time: dict[int, list[str]] = {}
    for name, deadline_ms in deadlines.items():
        by_time.setdefault(deadline_ms or 0, []).append(name)
    yield f"{of} Sets ({len(by_time)})/({len(deadlines)}):\n"
    to_wall_ms = server.clock.wall_ms() - int(server.clock.monotonic() * 1000)
    for deadline_ms, names in sorted(by_time.items()):
        at = strftime("%a %b %d %H:%M:%S UTC %Y", gmtime((deadline_ms + to_wall_ms) / 1000))
        yield f"{len(names)} expire at {at}:\n"
        yield from (f"\t{name}\n" for name in names)


# What is it made of?


def conf(server: Monitored) -> Iterator[str]:
    config = server.config
    data_dir, log_dir = config.data_dir / "version-2", config.data_log_dir / "version-2"
    yield f"clientPort={server.client_port}\n"
    yield "secureClientPort=-1\n"
    yield f"dataDir={data_dir.absolute()}\n"
    yield f"dataDirSize={_size_of(data_dir)}\n"
    yield f"dataLogDir={log_dir.absolute()}\n"
    yield f"dataLogSize={_size_of(log_dir)}\n"
    yield f"tickTime={config.tick_time_ms}\n"
    yield f"maxClientCnxns={config.max_client_cnxns}\n"
    yield f"minSessionTimeout={config.min_session_timeout_ms}\n"
    yield f"maxSessionTimeout={config.max_session_timeout_ms}\n"
    yield f"clientPortListenBacklog={config.client_backlog}\n"
    if config.is_standalone:
        yield "serverId=0\n"
        return
    me = config.peers[config.my_id]
    yield f"serverId={config.my_id}\n"
    yield f"initLimit={config.init_limit}\n"
    yield f"syncLimit={config.sync_limit}\n"
    yield "electionAlg=3\n"
    yield f"electionPort={me.election.port}\n"
    yield f"quorumPort={me.quorum.port}\n"
    yield f"peerType={int(me.role is PeerRole.OBSERVER)}\n"
    yield f"membership: \n{config.membership()}"


def dirs(server: Monitored) -> Iterator[str]:
    yield f"datadir_size: {_size_of(server.config.data_dir / 'version-2')}\n"
    yield f"logdir_size: {_size_of(server.config.data_log_dir / 'version-2')}\n"


def hash(server: Monitored) -> Iterator[str]:  # noqa: A001
    """The digest of the tree at every 128th zxid."""
    for zxid, digest in server.member.frontend.tree.digest_log:
        yield f"{zxid:x}: {digest}\n"


def gtmk(server: Monitored) -> Iterable[str]:
    """What ZooKeeper would trace; kept for those who set it, and nothing is traced."""
    return str(server.member.stats.trace_mask)


def stmk(server: Monitored) -> Iterable[str]:
    return gtmk(server)


def _set_trace_mask(server: Monitored, argument: bytes) -> None:
    if len(argument) == 8:
        server.member.stats.trace_mask = int.from_bytes(argument, "big", signed=True)


def _size_of(folder: Path) -> int:
    try:
        return sum(file.stat().st_size for file in folder.iterdir())
    except OSError:
        return 0  # a file that went away while we looked


def envi(_server: Monitored) -> Iterator[str]:
    """ZooKeeper's keys; those of the Java that is not there say so in ZooKeeper's way."""
    import os
    import platform

    from ottla.base import process

    yield "Environment:\n"
    yield f"zookeeper.version={version()}\n"
    yield f"host.name={platform.node() or NOT_KNOWN}\n"
    for name in ("version", "vendor", "home", "class.path", "library.path", "io.tmpdir", "compiler"):
        yield f"java.{name}={NOT_KNOWN}\n"
    yield f"os.name={platform.system()}\n"
    yield f"os.arch={platform.machine()}\n"
    yield f"os.version={platform.release()}\n"
    yield f"user.name={_user_name()}\n"
    yield f"user.home={Path('~').expanduser()}\n"
    yield f"user.dir={Path.cwd()}\n"
    page = os.sysconf("SC_PAGE_SIZE")
    yield f"os.memory.free={os.sysconf('SC_AVPHYS_PAGES') * page // _MIB}MB\n"
    yield f"os.memory.max={os.sysconf('SC_PHYS_PAGES') * page // _MIB}MB\n"
    yield f"os.memory.total={(process.resident_bytes() or 0) // _MIB}MB\n"


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in many containers
        return NOT_KNOWN


_COMMANDS: dict[str, Callable[[Monitored], Iterable[str]]] = {
    command.__name__: command
    for commands in (
        (conf, cons, crst, dirs, dump, envi, gtmk, hash, isro, mntr),
        (ruok, srst, srvr, stat, stmk, wchc, wchp, wchs),
    )
    for command in commands
}
_ALWAYS = frozenset({"envi", "gtmk", "isro", "ruok", "stmk"})
WORDS = frozenset(_COMMANDS)
"""The words that are known, allowed or not."""
