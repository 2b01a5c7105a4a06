"""The brokers that ``ottla up`` is going to start: their folders, addresses and files."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.base.properties import format_properties
from ottla.broker.config import METRICS_HOST, METRICS_PORT, BrokerConfig
from ottla.keeper.peers import Address

_STORED = "broker-[0-9]*/data/meta.properties"  # there as soon as a broker has a cluster
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  clients cannot be sent there


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One broker to be: its folder and where it listens."""

    id: int
    folder: Path
    address: Address
    metrics: Address

    @property
    def config_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"


def brokers_there(folder: Path) -> list[int]:
    """The brokers that have data in ``folder``."""
    return sorted(int(entry.parents[1].name.removeprefix("broker-")) for entry in folder.glob(_STORED))


def write_brokers(plans: Sequence[BrokerPlan], connect: str, settings: Mapping[str, str], *, insecure: bool) -> None:
    """Write ``server.properties`` of every broker, and read it back as the broker will."""
    # Kafka's defaults are for clusters of three and more; smaller ones could never make these topics.
    copies = str(min(len(plans), 3))
    for plan in plans:
        properties = {
            "broker.id": str(plan.id),
            "listeners": f"PLAINTEXT://{plan.address}",
            "log.dirs": os.fspath((plan.folder / "data").absolute()),
            "zookeeper.connect": connect,
            METRICS_HOST: plan.metrics.host,
            METRICS_PORT: str(plan.metrics.port),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(min(len(plans), 2)),
        }
        if plan.address.host in _EVERYWHERE:
            properties["advertised.listeners"] = f"PLAINTEXT://{socket.gethostname()}:{plan.address.port}"
        plan.folder.mkdir(parents=True, exist_ok=True)
        plan.config_file.write_text(format_properties({**properties, **settings}.items()), encoding="utf-8")
        BrokerConfig.from_file(os.fspath(plan.config_file), {}, insecure=insecure)
