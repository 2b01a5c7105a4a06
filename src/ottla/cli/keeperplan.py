"""The keepers that ``ottla up`` is going to start: their folders, addresses and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.base.properties import format_properties
from ottla.keeper.config import KeeperConfig
from ottla.keeper.peers import Address, Peer

_STORED = "keeper-[0-9]*/data/version-2"  # there as soon as a keeper has anything to lose
# A cluster on one machine: all its clients share one address, and nobody waits for a slow network.
_DEFAULTS = {"tickTime": "2000", "initLimit": "10", "syncLimit": "5", "maxClientCnxns": "0"}


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


def keepers_there(folder: Path) -> list[int]:
    """The keepers that have data in ``folder``."""
    return sorted(int(entry.parents[1].name.removeprefix("keeper-")) for entry in folder.glob(_STORED))


def write_keepers(plans: Sequence[KeeperPlan], settings: Mapping[str, str], *, insecure: bool) -> None:
    """Write ``zoo.cfg`` and ``myid`` of every keeper, and read them back as the keeper will."""
    servers = {f"server.{plan.id}": str(plan.peer) for plan in plans} if len(plans) > 1 else {}
    for plan in plans:
        data = plan.folder / "data"
        properties = {
            **_DEFAULTS,
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
