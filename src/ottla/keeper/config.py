"""The keeper's settings: ZooKeeper's ``zoo.cfg``, its system properties, and ``myid``.

Every key is ZooKeeper's own. What ZooKeeper takes as a system property (``-Dzookeeper.skipACL=yes``) is a key here, with
or without its ``zookeeper.`` prefix. Three kinds of keys are not declared below:

- ``server.N`` lines, read by ``ottla.keeper.peers``;
- keys of ZooKeeper that change nothing here (``INERT``), and keys that nobody knows: each is warned of once;
- keys that would promise what is not done here, such as encryption between servers (``UNMET``): refused, unless they
  switch it off.

``from_file`` reads all of that and looks at the data directory; the constructor is for an embedded keeper. Both hold
the same rules, and neither creates anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ottla.base.config import boolean, check, choice, integer, listing, parse, path, text
from ottla.base.errors import ConfigError
from ottla.base.properties import parse_properties
from ottla.keeper.peers import PORT_MAX, Address, Peer, Role, parse_peer
from ottla.net import WINDOW_US

if TYPE_CHECKING:
    from logging import Logger

LOOPBACK: Final = "127.0.0.1"
PREFIX: Final = "zookeeper."
SERVER_ID_MAX: Final = 255
PROMETHEUS_PORT: Final = 7000
_SNAPSHOTS_MIN: Final = 3
_UNSET: Final = -1
_NO_PORT: Final = -1
_UNCHOSEN_PORT: Final = -2
_INT_MAX: Final = (1 << 31) - 1
_MAX_TIMEOUT_TICKS: Final = 20
_DIGEST_ALGORITHMS: Final = {
    "sha1": "sha1", "sha-1": "sha1", "sha-224": "sha224", "sha-256": "sha256", "sha-384": "sha384", "sha-512": "sha512",
    "sha3-224": "sha3_224", "sha3-256": "sha3_256", "sha3-384": "sha3_384", "sha3-512": "sha3_512", "md5": "md5",
}  # fmt: skip
"""Java's names, which the setting goes by, and Python's."""

# Known to ZooKeeper, without effect here. A name that ends in a dot or an underscore stands for all keys that start with it.
INERT: Final = {
    "allowSaslFailedClients": "there is no SASL",
    "admin.": "there is no admin server; the four-letter words and the metrics say the same",
    "authProvider.": "the schemes world, auth, digest, ip and super are built in, and no other can be added",
    "bitHashCacheSize": "there is one way to keep watches",
    "client.portUnification": "there is no TLS",
    "clientTcpKeepAlive": "dead peers are noticed by their silence",
    "closeSessionTxn.enabled": "a closed session always records the nodes it deletes",
    "commitProcessor.": "there is no such pool of threads",
    "connection_throttle_": "connections are not throttled; maxClientCnxns and maxCnxns bound how many there are",
    "connectToLearnerMasterLimit": "a follower connects within initLimit",
    "cnxTimeout": "a server that does not answer is left for the next",
    "datadir.autocreate": "the data directory is always made",
    "db.autocreate": "a server without data never outvotes one that has some",
    "digest.enabled": "transactions always carry a digest of the tree",
    "electionAlg": "there is one election algorithm",
    "electionPortBindRetry": "there is one way to open a port",
    "enableEagerACLCheck": "ACLs are checked by the leader, in the order of the writes",
    "fastleader.": "elections have a pace of their own",
    "flushDelay": "writes are grouped by what is waiting, not by time",
    "forceSync": "what is acknowledged is always on disk",
    "intBufferStartingSizeBytes": "buffers grow as they are needed",
    "java.security.": "there is no JVM",
    "jute.maxbuffer.extrasize": "what servers tell each other has a limit of its own",
    "jvm.pause.": "there is no JVM",
    "kerberos.": "there is no SASL",
    "largeRequestMaxBytes": "large requests are not counted together; jute.maxbuffer bounds each",
    "largeRequestThreshold": "large requests are not counted together; jute.maxbuffer bounds each",
    "leader.closeSocketAsync": "closing a connection holds up nobody",
    "leader.maxConcurrentDiffSyncs": "followers are brought up to date as they come",
    "leader.maxConcurrentSnapSyncs": "followers are brought up to date as they come",
    "leader.maxConcurrentSnapshots": "followers are brought up to date as they come",
    "leader.maxConcurrentSnapshotTimeout": "followers are brought up to date as they come",
    "leader.maxTimeToWaitForEpoch": "a leader gives up after initLimit",
    "leader.snapPingIntervalInSeconds": "sending a snapshot holds up nobody",
    "learner.": "there is one way to talk to the leader",
    "letAnySaslUserDoX": "there is no SASL",
    "leader.nodelay": "connections never delay small packets",
    "follower.nodelay": "connections never delay small packets",
    "localSessionsEnabled": "every session is global",
    "localSessionsUpgradingEnabled": "every session is global",
    "log.dir": "logs go to standard error",
    "maxBatchSize": "writes are grouped by what is waiting",
    "maxConcurrentSnapSyncs": "followers are brought up to date as they come",
    "maxInProcessingDeadWatchers": "there is one way to keep watches",
    "maxWriteQueuePollTime": "writes are grouped by what is waiting, not by time",
    "maxResponseCacheSize": "replies are not cached",
    "maxGetChildrenResponseCacheSize": "replies are not cached",
    "metricsProvider.exportJvmInfo": "there is no JVM",
    "messageTracker.": "messages between servers are not kept",
    "metricsProvider.maxQueueSize": "there is no such queue",
    "metricsProvider.numWorkerThreads": "there is no such pool of threads",
    "multiAddress.reachabilityCheck": "a server has one address",
    "netty.": "there is one way to serve connections",
    "nio.directBufferBytes": "buffers grow as they are needed",
    "nio.numSelectorThreads": "there is no such pool of threads",
    "nio.numWorkerThreads": "there is no such pool of threads",
    "nio.shutdownTimeout": "there is no such pool of threads",
    "observer.": "an observer comes back as a follower does",
    "observerMasterPort": "observers are served by the leader",
    "pathStats.": "statistics by path are not kept",
    "portUnification": "there is no TLS",
    "quorum.auth.": "there is no SASL",
    "quorum.auth.kerberos.": "there is no SASL",
    "quorumCnxnTimeoutMs": "a server that does not answer is left for the next",
    "quorum.cnxn.threads.size": "there is no such pool of threads",
    "request_stale_": "every request that was read is answered",
    "request_throttle_": "requests are not throttled; globalOutstandingLimit bounds how many are in work",
    "request_throttler.": "requests are not throttled; globalOutstandingLimit bounds how many are in work",
    "requireKerberosConfig": "there is no SASL",
    "root.logger": "logs go to standard error",
    "sasl.": "there is no SASL",
    "SASLAuthenticationProvider.": "there is no SASL",
    "secureClientPort": "there is no TLS, and this port stays closed",
    "secureClientPortAddress": "there is no TLS",
    "serverCnxnFactory": "there is one way to serve connections",
    "serializeLastProcessedZxid.enabled": "snapshots are named by the zxid they begin at",
    "snapshot.compression.method": "snapshots are written plain; those in gz are read",
    "snapshotSizeFactor": "a follower is brought up to date from memory or by a snapshot",
    "ssl.": "there is no TLS",
    "sslQuorumReloadCertFiles": "there is no TLS",
    "superUser": "there is no SASL",
    "syncEnabled": "observers always keep what they learn on disk",
    "tcpKeepAlive": "dead peers are noticed by their silence",
    "throttled_op_wait_time": "requests are not throttled; globalOutstandingLimit bounds how many are in work",
    "version": "the membership is fixed",
    "watcherCleanIntervalInSeconds": "there is one way to keep watches",
    "watcherCleanThreadsNum": "there is one way to keep watches",
    "watcherCleanThreshold": "there is one way to keep watches",
    "watchManagerName": "there is one way to keep watches",
    "X509AuthenticationProvider.": "there is no TLS",
}

# Each of these would be believed to protect something, or to change who decides; ignoring it would be a lie.
# The value says what is refused: "true", or for a text "...", anything at all.
UNMET: Final = {
    "audit.enable": ("true", "there is no audit log yet"),
    "emulate353TTLNodes": ("true", "nodes with a time to live of ZooKeeper 3.5.3 are not read"),
    "enforce.auth.enabled": ("true", "clients cannot be made to authenticate yet"),
    "enforce.auth.schemes": ("...", "clients cannot be made to authenticate yet"),
    "fips-mode": ("true", "there is no TLS yet"),
    "IPAuthenticationProvider.usexforwardedfor": ("true", "clients have the address that they connect from"),
    "multiAddress.enabled": ("true", "a server has one address"),
    "quorum.auth.enableSasl": ("true", "servers do not authenticate each other yet"),
    "quorum.auth.learnerRequireSasl": ("true", "servers do not authenticate each other yet"),
    "quorum.auth.serverRequireSasl": ("true", "servers do not authenticate each other yet"),
    "sessionRequireClientSASLAuth": ("true", "clients cannot be made to authenticate yet"),
    "sslQuorum": ("true", "traffic between servers is not encrypted yet"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperConfig:
    """One keeper's settings, complete: what was not given has been derived."""

    # fmt: off
    data_dir: Path = path("dataDir", doc="Where snapshots live, and `myid`.")
    data_log_dir: Path = path("dataLogDir", derived_from="dataDir", doc="Where the transaction log lives; a disk of its own makes writes faster.")
    tick_time_ms: int = integer("tickTime", 3000, at_least=1, at_most=_INT_MAX // _MAX_TIMEOUT_TICKS, doc="Length of a tick in milliseconds, the unit of the limits below.")
    init_limit: int = integer("initLimit", 10, at_least=1, doc="Ticks that a follower may take to connect to a leader and to catch up.")
    sync_limit: int = integer("syncLimit", 5, at_least=1, doc="Ticks of silence after which leader and follower give each other up.")
    client_port: int = integer("clientPort", _UNSET, at_least=0, at_most=PORT_MAX, shown_default="required", doc="Port for clients; 0 takes a free one. May be given in the `server.N` line instead.")
    client_host: str = text("clientPortAddress", shown_default=LOOPBACK, doc="Address that clients connect to.")
    client_backlog: int = integer("clientPortListenBacklog", _UNSET, at_least=1, shown_default="1024", doc="Connections that the system may hold before they are accepted.")
    max_client_cnxns: int = integer("maxClientCnxns", 60, at_least=0, doc="Connections from one address; 0 for any number.")
    max_cnxns: int = integer("maxCnxns", 0, at_least=0, doc="Connections in all; 0 for any number.")
    sessionless_timeout_ms: int = integer("nio.sessionlessCnxnTimeout", 10_000, at_least=1, doc="How long a connection may take to open its session.")
    min_session_timeout_ms: int = integer("minSessionTimeout", _UNSET, at_least=1, shown_default="2 × tickTime", doc="Shortest session timeout that a client is granted.")
    max_session_timeout_ms: int = integer("maxSessionTimeout", _UNSET, at_least=1, shown_default=f"{_MAX_TIMEOUT_TICKS} × tickTime", doc="Longest session timeout that a client is granted.")
    global_outstanding_limit: int = integer("globalOutstandingLimit", 1000, at_least=1, doc="Requests in work over all connections, beyond which no more are read.")
    jute_max_buffer: int = integer("jute.maxbuffer", 0xFFFFF, at_least=1024, doc="Longest request in bytes, and so the largest node.")
    peer_type: str = choice("peerType", "participant", "observer", default="participant", doc="Whether this server votes; the `server.N` line has the last word.")
    leader_serves: bool = boolean("leaderServes", default=True, yes_no=True, doc="Whether the leader takes clients too.")
    standalone_enabled: bool = boolean("standaloneEnabled", default=True, doc="Whether a single participant runs without an ensemble.")
    reconfig_enabled: bool = boolean("reconfigEnabled", default=False, doc="Accepted; changing the membership at run time is answered as if it were false.")
    quorum_listen_on_all_ips: bool = boolean("quorumListenOnAllIPs", default=False, doc="Whether the quorum and election ports listen on every address.")
    read_only_enabled: bool = boolean("readonlymode.enabled", default=False, doc="Whether a server without a quorum serves reads to clients that allow it.")
    snap_count: int = integer("snapCount", 100_000, at_least=2, doc="Transactions between two snapshots.")
    snap_size_limit_kib: int = integer("snapSizeLimitInKb", 4 << 20, doc="KiB of transactions between two snapshots, at most; 0 or less for any number.")
    commit_log_count: int = integer("commitLogCount", 500, at_least=1, doc="Recent transactions kept in memory to bring followers up to date.")
    pre_alloc_kib: int = integer("preAllocSize", 1024, at_least=0, at_most=1 << 21, doc="KiB by which the transaction log is extended ahead of its end; 0 for not at all. (ZooKeeper: 65536.)")
    txn_log_size_limit_kib: int = integer("txnLogSizeLimitInKb", _UNSET, shown_default="none", doc="KiB beyond which a file of the transaction log is followed by another.")
    fsync_warning_ms: int = integer("fsync.warningthresholdms", 1000, at_least=0, doc="A sync of the transaction log that takes longer is warned of.")
    trust_empty_snapshot: bool = boolean("snapshot.trust.empty", default=False, doc="Whether to start from a transaction log without any snapshot, as upgrades from ZooKeeper 3.4 need once.")
    snap_retain_count: int = integer("autopurge.snapRetainCount", _SNAPSHOTS_MIN, at_least=1, doc="Snapshots that a purge keeps, with the logs they need; never fewer than three.")
    purge_interval_hours: int = integer("autopurge.purgeInterval", 0, doc="Hours between two purges; 0 for never.")
    busy_poll_us: int = integer("busyPollUs", WINDOW_US, at_least=0, at_most=10_000, doc="Microseconds for which to look for the next request before sleeping, while that pays; 0 for never. (Not ZooKeeper's.)")
    four_letter_words: tuple[str, ...] = listing("4lw.commands.whitelist", ("srvr",), doc="Four-letter words that are answered; `*` for all.")
    skip_acl: bool = boolean("skipACL", default=False, yes_no=True, doc="Whether to check no ACL at all.")
    super_digest: str = text("DigestAuthenticationProvider.superDigest", secret=True, doc="`super:` and the digest of the password that passes every ACL.")
    digest_name: str = choice("DigestAuthenticationProvider.digestAlg", *_DIGEST_ALGORITHMS, default="sha1", doc="The hash that the scheme digest makes of a password; the same on every server, and as long as ACLs are to hold.")
    digest_enabled: bool = boolean("DigestAuthenticationProvider.enabled", default=True, doc="Whether clients may authenticate by the scheme digest, and ACLs name it.")
    enforce_quota: bool = boolean("enforceQuota", default=False, doc="Whether a write beyond a quota fails; otherwise it is logged.")
    extended_types_enabled: bool = boolean("extendedTypesEnabled", default=False, doc="Whether clients may create nodes with a time to live.")
    container_check_ms: int = integer("znode.container.checkIntervalMs", 60_000, at_least=1, doc="How often empty container nodes and expired nodes are looked for.")
    container_max_per_minute: int = integer("znode.container.maxPerMinute", 10_000, at_least=1, doc="How many of those are deleted in a minute.")
    container_never_used_ms: int = integer("znode.container.maxNeverUsedIntervalMs", 0, at_least=0, wide=True, doc="Age at which a container that never had a child is deleted; 0 for never.")
    metrics_class: str = text("metricsProvider.className", shown_default="none", doc="Metrics are served if this ends in `PrometheusMetricsProvider`, or if a port is given.")
    metrics_port: int = integer("metricsProvider.httpPort", _UNCHOSEN_PORT, at_least=_NO_PORT, at_most=PORT_MAX, shown_default=f"{PROMETHEUS_PORT} if served", doc="Port for metrics in Prometheus form; 0 takes a free one, -1 none.")
    metrics_host: str = text("metricsProvider.httpHost", shown_default=LOOPBACK, doc="Address that metrics are served on.")
    # fmt: on

    peers: Mapping[int, Peer] = field(default_factory=dict)
    my_id: int = 1
    insecure: bool = False
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_file(cls, file: str | Path, overrides: Mapping[str, str] | None = None, *, insecure: bool = False) -> Self:
        """Read ``zoo.cfg``, with ``overrides`` in the place of what it says."""
        properties = _normal(_read(Path(file)))
        overrides = _normal(overrides or {})
        if dynamic := overrides.pop("dynamicConfigFile", properties.pop("dynamicConfigFile", None)):
            properties.update(_normal(_read(Path(dynamic))))
        return cls.from_properties({**properties, **overrides}, insecure=insecure)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, insecure: bool = False) -> Self:
        """Read the settings from the keys and values of a ``zoo.cfg``, and ``myid`` from the data directory."""
        parsed = parse(cls, _normal(properties))
        values = parsed.values
        warnings: list[str] = []
        peers: dict[int, Peer] = {}
        for key in [key for key in parsed.unknown if key.startswith("server.")]:
            peer = parse_peer(key, parsed.unknown.pop(key).strip())
            if peers.setdefault(peer.id, peer) is not peer:
                raise ConfigError(f"{key}: server {peer.id} is given twice")
        _check_data_dirs(values)
        my_id = _my_id(values["data_dir"], peers, standalone_enabled=values.get("standalone_enabled", True))
        warnings += _unused(parsed.unknown)
        warnings += _client_address(values, peers.get(my_id))
        warnings += _adjusted(values, peers, my_id)
        return cls(**values, peers=peers, my_id=my_id, insecure=insecure, warnings=tuple(warnings))

    def __post_init__(self) -> None:
        check(self)
        # Declared with a default of None, which this line, and no one else, ever sees.
        self._derive("data_log_dir", cast("Path | None", self.data_log_dir) or self.data_dir)
        self._derive("client_host", self.client_host or LOOPBACK)
        self._derive("metrics_host", self.metrics_host or LOOPBACK)
        if self.metrics_port == _UNCHOSEN_PORT:
            served = self.metrics_class.endswith("PrometheusMetricsProvider")
            self._derive("metrics_port", PROMETHEUS_PORT if served else _NO_PORT)
        if self.min_session_timeout_ms == _UNSET:
            self._derive("min_session_timeout_ms", 2 * self.tick_time_ms)
        if self.max_session_timeout_ms == _UNSET:
            self._derive("max_session_timeout_ms", _MAX_TIMEOUT_TICKS * self.tick_time_ms)
        for rule in (self._check_client_port, self._check_timeouts, self._check_members, self._check_addresses):
            rule()

    @property
    def client_address(self) -> Address:
        """Where clients connect."""
        return Address(self.client_host, self.client_port)

    @property
    def digest_algorithm(self) -> str | None:
        """The hash of the scheme digest as hashlib names it, or None where that scheme is switched off."""
        return _DIGEST_ALGORITHMS[self.digest_name] if self.digest_enabled else None

    @property
    def metrics_address(self) -> Address | None:
        """Where metrics are served, or None if they are not."""
        return None if self.metrics_port == _NO_PORT else Address(self.metrics_host, self.metrics_port)

    @property
    def is_standalone(self) -> bool:
        """Whether this server needs nobody else."""
        return not self.peers or (self.standalone_enabled and len(self.voters) == 1)

    @property
    def is_observer(self) -> bool:
        """Whether this server follows without a vote."""
        return self.my_id in self.observers

    @property
    def voters(self) -> tuple[int, ...]:
        """Ids of the servers that vote, in order."""
        return tuple(sorted(peer.id for peer in self.peers.values() if peer.role is Role.PARTICIPANT))

    @property
    def observers(self) -> tuple[int, ...]:
        """Ids of the servers that do not vote, in order."""
        return tuple(sorted(peer.id for peer in self.peers.values() if peer.role is Role.OBSERVER))

    @property
    def quorum_size(self) -> int:
        """How many voters make a majority."""
        return len(self.voters) // 2 + 1

    def membership(self, version: int = 0) -> str:
        """What ``/zookeeper/config`` holds: the servers, and the version of the membership."""
        lines = [f"server.{peer.id}={peer}" for peer in sorted(self.peers.values(), key=lambda peer: peer.id)]
        return "\n".join([*lines, f"version={version:x}"])

    def log_warnings(self, log: Logger) -> None:
        """Say once what is unusual about these settings."""
        for warning in self.warnings:
            log.warning("%s", warning)

    def _derive(self, attribute: str, value: object) -> None:
        object.__setattr__(self, attribute, value)

    def _check_client_port(self) -> None:
        if self.client_port == _UNSET:
            raise ConfigError(f"clientPort is not set: must be a whole number from 0 to {PORT_MAX}, 2181 by custom")

    def _check_timeouts(self) -> None:
        low, high = self.min_session_timeout_ms, self.max_session_timeout_ms
        if low > high:
            raise ConfigError(f"minSessionTimeout={low}: must not be larger than maxSessionTimeout={high}")

    def _check_members(self) -> None:
        highest = SERVER_ID_MAX - self.extended_types_enabled
        for server_id in (self.my_id, *self.peers):
            if not 0 <= server_id <= highest:
                reason = " while extendedTypesEnabled is true" if self.extended_types_enabled else ""
                raise ConfigError(f"server.{server_id}: a server's number must be from 0 to {highest}{reason}")
        if self.peers and self.my_id not in self.peers:
            known = ", ".join(map(str, sorted(self.peers)))
            raise ConfigError(f"myid={self.my_id}: must be one of the server.N lines, which are {known}")
        if self.observers and len(self.voters) <= self.standalone_enabled:
            raise ConfigError(
                "server.N: observers need participants to follow; give at least two, or standaloneEnabled=false and one"
            )
        if not self.peers and not self.standalone_enabled:
            raise ConfigError("standaloneEnabled=false: must be true, or at least one server.N line must be given")

    def _check_addresses(self) -> None:
        taken: dict[Address, str] = {}
        for name, address in self._addresses():
            if address.port and (other := taken.setdefault(address, name)) is not name:
                raise ConfigError(f"{name}: {address} is the address of {other} already")
            if not (address.is_loopback or self.insecure):
                raise ConfigError(
                    f"{name}: {address} can be reached from other machines, and there is no access control yet;"
                    " use a loopback address, or allow it with --insecure"
                )
        if self.quorum_listen_on_all_ips and self.peers and not self.insecure:
            raise ConfigError(
                "quorumListenOnAllIPs=true: opens the quorum ports to other machines, and there is no access control"
                " yet; set it to false, or allow it with --insecure"
            )

    def _addresses(self) -> Iterator[tuple[str, Address]]:
        yield "clientPort", self.client_address
        if self.metrics_address is not None:
            yield "metricsProvider.httpPort", self.metrics_address
        if self.is_standalone:
            return
        for peer in self.peers.values():
            yield f"the quorum port of server.{peer.id}", peer.quorum
            yield f"the election port of server.{peer.id}", peer.election
            if peer.client is not None and peer.client.host and peer.id != self.my_id:
                yield f"the client port of server.{peer.id}", peer.client


def _read(file: Path) -> dict[str, str]:
    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _normal(properties: Mapping[str, str]) -> dict[str, str]:
    """Strip white space and the prefix of system properties, which may be written or left out."""
    normal: dict[str, str] = {}
    for key, value in properties.items():
        name = key.strip().removeprefix(PREFIX)
        if normal.setdefault(name, value.strip()) != value.strip():
            raise ConfigError(
                f"{name} and {PREFIX}{name}: one setting under two names with two values; keep one of them"
            )
    return normal


def _check_data_dirs(values: Mapping[str, Any]) -> None:
    for key, attribute in (("dataDir", "data_dir"), ("dataLogDir", "data_log_dir")):
        folder: Path | None = values.get(attribute)
        if folder is None:
            continue
        existing = next(ancestor for ancestor in (folder, *folder.absolute().parents) if ancestor.exists())
        if not existing.is_dir():
            raise ConfigError(f"{key}={folder}: must be a folder, and {existing} is a file")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise ConfigError(f"{key}={folder}: must be a folder that this user can write to")


def _my_id(data_dir: Path, peers: Mapping[int, Peer], *, standalone_enabled: bool) -> int:
    file = data_dir / "myid"
    try:
        written = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        if not peers:
            return 1
        if len(peers) == 1 and standalone_enabled:
            return next(iter(peers))
        known = ", ".join(map(str, sorted(peers)))
        raise ConfigError(f"myid is missing: {file} must hold the number of this server, one of {known}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"myid: {file} cannot be read: {error}") from error
    if not written.isdecimal():
        raise ConfigError(f"myid={written}: {file} must hold a whole number from 0 to {SERVER_ID_MAX} and nothing else")
    return int(written)


def _unused(unknown: Mapping[str, str]) -> Iterator[str]:
    """Warn of every key that has no effect; refuse those whose effect somebody relies on."""
    for key, value in unknown.items():
        if key.startswith(("group.", "weight.")) or key == "oraclePath":
            raise ConfigError(f"{key}={value}: every participant has one vote here; remove it")
        if key in UNMET:
            refused, reason = UNMET[key]
            if refused == "..." and value:
                raise ConfigError(f"{key}={value}: {reason}; remove it")
            if value.lower() == refused:
                raise ConfigError(f"{key}={value}: {reason}; set it to false or remove it")
            continue
        if key == "electionAlg" and value != "3":
            raise ConfigError(f"{key}={value}: must be 3, the only election algorithm")
        reason = INERT.get(key) or next(
            (why for name, why in INERT.items() if name[-1] in "._" and key.startswith(name)), ""
        )
        yield f"{key} has no effect here: {reason}" if reason else f"{key} is not a known setting: ignored"


def _client_address(values: dict[str, Any], me: Peer | None) -> Iterator[str]:
    """Take the client address from the server's own line if it is there, and say so when the host is our choice."""
    if me is not None and me.client is not None:
        port, host = values.get("client_port", me.client.port), values.get("client_host") or me.client.host
        if port != me.client.port or (me.client.host and host != me.client.host):
            given = Address(host, port)
            raise ConfigError(
                f"clientPort: {given} differs from {me.client} in the line of server.{me.id}; keep one of them"
            )
        values.update(client_port=port, client_host=host)
    elif "client_host" in values and "client_port" not in values:
        raise ConfigError("clientPortAddress is set but clientPort is not; give both")
    if not values.get("client_host"):
        yield f"clientPortAddress is not set: clients are served on {LOOPBACK} only, since there is no access control yet"
    chosen = values.get("metrics_port")
    served = "Prometheus" in values.get("metrics_class", "") if chosen is None else chosen != _NO_PORT
    if served and not values.get("metrics_host"):
        yield f"metricsProvider.httpHost is not set: metrics are served on {LOOPBACK} only"


def _adjusted(values: dict[str, Any], peers: Mapping[int, Peer], my_id: int) -> Iterator[str]:
    """Warn of what is allowed and unwise, and mend what ZooKeeper mends."""
    if values.get("snap_retain_count", _SNAPSHOTS_MIN) < _SNAPSHOTS_MIN:
        yield f"autopurge.snapRetainCount={values['snap_retain_count']}: {_SNAPSHOTS_MIN} are kept"
        values["snap_retain_count"] = _SNAPSHOTS_MIN
    if values.get("reconfig_enabled"):
        yield "reconfigEnabled=true: changing the membership at run time is not supported yet"
    if my_id in peers:
        role = peers[my_id].role.value
        if values.get("peer_type", role) != role:
            yield f"peerType={values['peer_type']}: the line of server.{my_id} says {role}, and that holds"
        values["peer_type"] = role
    voters = sum(peer.role is Role.PARTICIPANT for peer in peers.values())
    if voters == 2:
        yield "two servers survive no failure; three survive one"
    elif voters > 2 and voters % 2 == 0:
        yield f"{voters} servers survive no more failures than {voters - 1}"
