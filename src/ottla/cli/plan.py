"""What ``ottla up`` is going to start: ports chosen, files written, nothing running yet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.base.errors import ConfigError
from ottla.base.properties import format_properties
from ottla.cli.processes import free_ports, is_free
from ottla.keeper.config import KeeperConfig
from ottla.keeper.peers import PORT_MAX, Address, Peer

DEFAULT_KEEPERS = 3
_STORED = "keeper-[0-9]*/data/version-2"  # there as soon as a keeper has anything to lose
# A cluster on one machine: all its clients share one address, and nobody waits for a slow network.
_KEEPER_DEFAULTS = {"tickTime": "2000", "initLimit": "10", "syncLimit": "5", "maxClientCnxns": "0"}


@dataclass(frozen=True, slots=True)
class KeeperPlan:
    """One keeper to be: its folder and its addresses."""

    id: int
    folder: Path
    client: Address
    quorum: Address
    election: Address
    metrics: Address

    @property
    def config_file(self) -> Path:
        return self.folder / "zoo.cfg"

    @property
    def log_file(self) -> Path:
        return self.folder / "keeper.log"

    @property
    def peer(self) -> Peer:
        return Peer(self.id, self.quorum, self.election)


def plan_keepers(folder: Path, *, count: int | None, host: str, port: int, insecure: bool) -> list[KeeperPlan]:
    """Choose folders and ports for ``count`` keepers, or for as many as the folder holds already."""
    if not (insecure or Address(host, port).is_loopback):
        raise ConfigError(
            f"--host {host}: can be reached from other machines, and there is no access control yet;"
            " use a loopback address, or allow it with --insecure"
        )
    count = _keeper_count(folder, count)
    clients = free_ports(host, count) if port == 0 else list(range(port, port + count))
    for client in clients:
        if client > PORT_MAX:
            raise ConfigError(
                f"--keeper-port {port}: {count} keepers need ports up to {client}, and {PORT_MAX} is the last one"
            )
        if not is_free(host, client):
            raise ConfigError(
                f"port {client} on {host} is taken; choose another with --keeper-port, or 0 for any that is free"
            )
    spare = iter([port for port in free_ports(host, 4 * count) if port not in clients])
    return [
        KeeperPlan(
            id=number,
            folder=folder / f"keeper-{number}",
            client=Address(host, client),
            quorum=Address(host, next(spare)),
            election=Address(host, next(spare)),
            metrics=Address(host, next(spare)),
        )
        for number, client in enumerate(clients, 1)
    ]


def _keeper_count(folder: Path, asked: int | None) -> int:
    """Keepers that voted once must be there again, or a majority could be one that knows nothing of the past."""
    there = sorted(int(entry.parents[1].name.removeprefix("keeper-")) for entry in folder.glob(_STORED))
    if not there:
        return DEFAULT_KEEPERS if asked is None else asked
    if there != list(range(1, len(there) + 1)):
        raise ConfigError(
            f"{folder}: holds the keepers {there}, and some are missing; restore them or choose another --dir"
        )
    if asked not in (None, len(there)):
        raise ConfigError(
            f"--keepers {asked}: {folder} holds {len(there)}, and their number cannot change; choose another --dir"
        )
    return len(there)


def write_keepers(plans: list[KeeperPlan], settings: Mapping[str, str], *, insecure: bool) -> None:
    """Write ``zoo.cfg`` and ``myid`` of every keeper, and read them back as the keeper will."""
    servers = {f"server.{plan.id}": str(plan.peer) for plan in plans} if len(plans) > 1 else {}
    for plan in plans:
        data = plan.folder / "data"
        properties = {
            **_KEEPER_DEFAULTS,
            "dataDir": os.fspath(data.absolute()),
            "clientPort": str(plan.client.port),
            "clientPortAddress": plan.client.host,
            "metricsProvider.httpHost": plan.metrics.host,
            "metricsProvider.httpPort": str(plan.metrics.port),
            **servers,
            **settings,
        }
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{plan.id}\n", encoding="ascii")
        plan.config_file.write_text(format_properties(properties.items()), encoding="utf-8")
        KeeperConfig.from_file(plan.config_file, insecure=insecure)
