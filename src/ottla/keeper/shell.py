"""A keeper as a running thing: sockets, files, a clock and a loop around one ``Member``. Decides nothing.

    start    recover the disk, open the ports, make the member, tick
    run      connections and the sync thread report to the member; the member asks for sends, writes and connections
    stop     stop ticking, close clients and links, sync and close the log

Whatever the member asks for in one turn of the loop is proposed, sent and written together at the end of that turn.
A disk that fails ends the server: what it would still say could not be relied on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.base.clock import SystemClock
from ottla.base.errors import ConfigError
from ottla.base.scope import TaskScope
from ottla.keeper.clientport import ClientConnection
from ottla.keeper.config import KeeperConfig
from ottla.keeper.disk import StoreDisk, open_disk
from ottla.keeper.links import Links
from ottla.keeper.member import Member, Options
from ottla.keeper.messages import Message
from ottla.keeper.peers import Address
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import Notification
from ottla.keeper.server.clients import Client
from ottla.keeper.server.frontend import Frontend, Settings
from ottla.keeper.server.prep import Rules
from ottla.keeper.server.stats import Stats
from ottla.net import Connection, Listener, Turn, Vigil

if TYPE_CHECKING:
    from ottla.net.textport import TextPort

log = logging.getLogger(__name__)

TICK_S: Final = 0.05
STANDALONE_ID: Final = 1


def options_of(config: KeeperConfig) -> Options:
    """The member's share of the configuration."""
    standalone = config.is_standalone
    server_id = STANDALONE_ID if standalone else config.my_id
    members = Membership(
        server_id,
        frozenset({server_id}) if standalone else frozenset(config.voters),
        frozenset() if standalone else frozenset(config.observers),
    )
    tick_ms = config.tick_time_ms
    text = "".join(f"server.{peer.id}={peer}\n" for peer in config.peers.values()) + "version=0"
    return Options(
        members=members,
        timing=Timing(tick_ms, config.init_limit * tick_ms, config.sync_limit * tick_ms),
        settings=Settings(
            server_id,
            config.min_session_timeout_ms,
            config.max_session_timeout_ms,
            config.super_digest or None,
            config.skip_acl,
            config.global_outstanding_limit,
            config.digest_algorithm,
        ),
        rules=Rules(config.skip_acl, config.enforce_quota, config.extended_types_enabled, config.digest_enabled),
        config_text="" if standalone else text,
        read_only_allowed=config.read_only_enabled and not standalone,
        container_check_ms=config.container_check_ms,
        container_never_used_ms=config.container_never_used_ms,
        containers_per_minute=config.container_max_per_minute,
    )


class KeeperServer:
    """Satisfies what connections, links, disk and monitoring ask of "the server"."""

    def __init__(self, config: KeeperConfig) -> None:
        self.config = config
        self.clock = SystemClock()
        self.started_ms = int(self.clock.monotonic() * 1000)
        self.listener = Listener(connections_max=config.max_cnxns, per_address_max=config.max_client_cnxns)
        self.failed: asyncio.Event = asyncio.Event()
        self._scope = TaskScope("keeper")
        self._peer_listeners = (Listener(), Listener())
        self._metrics: TextPort | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._vigil = Vigil(config.busy_poll_us)
        self._turn: Turn
        self.member: Member
        self._links: Links
        self._disk: StoreDisk
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_unexpected)
        await self._scope.__aenter__()
        options = options_of(self.config)
        started = self.clock.monotonic()
        self._turn = Turn(self._loop, before=self._propose, after=self._sync)
        self._disk, recovered = open_disk(
            self.config, self._loop, self._scope, self._turn.ask, self._on_synced, self._on_disk_failed
        )
        recovery_ms = (self.clock.monotonic() - started) * 1000
        try:
            self._links = Links(self._scope, self._turn, options.members.server_id, self.config.peers, self)
            self.member = Member(options, recovered, self._disk, self._links, self.clock, wake=self._turn.ask)
            self.member.stats.recovery_time.add(recovery_ms)
            self._disk.stats = self.member.stats
            await self._listen()
        except BaseException:
            await self.stop()
            raise
        self._tick()

    async def _listen(self) -> None:
        config = self.config
        if not config.is_standalone:
            me = config.peers[config.my_id]
            election, quorum = self._peer_listeners
            await _listen(election, self._links.election_connection, self._bind(me.election), "election port")
            await _listen(quorum, self._links.link_connection, self._bind(me.quorum), "quorum port")
        backlog = max(0, config.client_backlog)
        await _listen(self.listener, self._client_connection, config.client_address, "client port", backlog=backlog)
        if config.metrics_address is not None:
            from ottla.keeper import metrics  # only where they are asked for
            from ottla.net.textport import TextPort

            at = config.metrics_address
            self._metrics = TextPort(lambda: metrics.render(self), self._loop, at.host, at.port)

    def _bind(self, address: Address) -> Address:
        return Address("", address.port) if self.config.quorum_listen_on_all_ips else address

    def _client_connection(self) -> Connection:
        return ClientConnection(
            self,
            self._turn,
            self._vigil,
            frame_bytes_max=self.config.jute_max_buffer,
            sessionless_timeout_s=self.config.sessionless_timeout_ms / 1000,
        )

    async def stop(self) -> None:
        self._halt()
        if self._timer is not None:
            self._timer.cancel()
        for listener in (self.listener, *self._peer_listeners):
            listener.stop()
        if self._metrics is not None:
            self._metrics.stop()
        if hasattr(self, "member"):
            self.member.frontend.close_all()
            self._links.close_all()
        await self._disk.close()
        await self._scope.__aexit__(None, None, None)

    @property
    def client_port(self) -> int:
        return self.listener.port

    @property
    def connections(self) -> int:
        return len(self.listener)

    @property
    def rejected(self) -> int:
        return self.listener.rejected

    # For client connections.

    @property
    def stats(self) -> Stats:
        return self.member.stats

    @property
    def frontend(self) -> Frontend | None:
        member = self.member
        leader_only = member.role.leader == self.config.my_id and not self.config.leader_serves
        if not member.is_serving or (leader_only and not self.config.is_standalone):
            return None
        return member.frontend

    def four_letter_word(self, word: bytes, argument: bytes, asker: ClientConnection) -> bytes | None:
        if not word.isalpha():
            return None
        from ottla.keeper import fourletter  # only where one is asked for

        text = word.decode("ascii")
        if text not in fourletter.WORDS:
            return None
        # Who asks is a connection like any other while it asks, and sees itself among them.
        client = Client(asker, *asker.peer, self.clock.wall_ms())
        client.received, client.paused = 1, True
        clients = self.member.frontend.clients
        clients.add(client)
        try:
            return (fourletter.answer(text, self, argument) or "").encode()
        finally:
            clients.discard(client)

    # For links.

    def on_notification(self, notification: Notification) -> None:
        self.member.on_notification(notification)

    def on_link_up(self, link: int) -> None:
        self.member.on_link_up(link)

    def on_link_down(self, link: int) -> None:
        self.member.on_link_down(link)

    def on_message(self, link: int, message: Message) -> None:
        self.member.on_message(link, message)

    def on_snapshot_begin(self, link: int, zxid: int) -> None:
        self._disk.begin_install(link, zxid)

    def on_snapshot_chunk(self, link: int, data: bytes) -> None:
        self._disk.write_install(link, data)

    def on_snapshot_end(self, link: int) -> None:
        zxid, tree = self._disk.finish_install(link)
        self.member.on_snapshot(link, zxid, tree)

    # For the disk.

    def _on_synced(self, zxid: int) -> None:
        self.member.on_synced(zxid)

    def _on_disk_failed(self, error: BaseException) -> None:
        self.member.stats.unrecoverable_errors += 1
        self._fail("the disk failed, so this server stops: %s", error)

    def _on_unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something that was to be impossible has happened; what this server believes may be wrong now."""
        error = context.get("exception")
        if isinstance(error, OSError):
            loop.default_exception_handler(context)
        else:
            self._fail("this server stops: %s", context.get("message"), exc_info=error)

    def _fail(self, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        """The end; only the first reason is told, since the others follow from it."""
        if not self.failed.is_set():
            log.critical(message, *args, exc_info=exc_info)
        self._halt()
        self.failed.set()

    def _halt(self) -> None:
        if hasattr(self, "member"):
            self.member.halted = True

    # Time.

    def _propose(self) -> None:
        self.member.flush()

    def _sync(self) -> None:
        self._disk.sync()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self.member.tick()


async def _listen(
    listener: Listener, factory: Callable[[], Connection], at: Address, what: str, *, backlog: int = 0
) -> None:
    """``backlog``: how many connections the system may hold; 0 for what the listener asks for by itself."""
    try:
        await listener.listen(factory, at.host, at.port, backlog=backlog or None)
    except OSError as e:
        raise ConfigError(f"cannot listen on {at} ({what}): {e.strerror or e}") from e
