"""What ``ottla up`` is going to start: ports chosen, files written, nothing running yet.

One broker takes its only keeper into its own process: a laptop needs no more. More brokers, or more keepers, are processes
each, for what is to survive the loss of one must not share it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.base.errors import ConfigError
from ottla.cli.brokerplan import BrokerPlan, brokers_there, write_brokers
from ottla.cli.keeperplan import KeeperPlan, keepers_there, write_keepers
from ottla.cli.processes import check_host, free_ports, is_free
from ottla.keeper.peers import PORT_MAX, Address

ENSEMBLE = 3
"""Keepers, where nobody says how many: fewer would not survive the loss of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for. A number that is None is left to us."""

    folder: Path
    host: str
    brokers: int | None
    broker_port: int
    broker_settings: Mapping[str, str]
    keepers: int | None
    keeper_port: int
    keeper_settings: Mapping[str, str]
    insecure: bool


@dataclass(frozen=True, slots=True)
class Role:
    """What a process is to a cluster."""

    name: str
    id: int
    address: Address
    metrics: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.id}"


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One process to be: the arguments of ``ottla``, where its words go, and its roles."""

    arguments: tuple[str, ...]
    log_file: Path
    roles: tuple[Role, ...]


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A whole cluster to be."""

    keepers: Sequence[KeeperPlan]
    brokers: Sequence[BrokerPlan]
    insecure: bool

    def processes(self) -> list[ProcessPlan]:
        if len(self.brokers) == len(self.keepers) == 1:
            (broker,), (keeper,) = self.brokers, self.keepers
            arguments = ("broker", os.fspath(broker.config_file), "--keeper", os.fspath(keeper.config_file))
            return [self._process(arguments, broker.log_file, _broker_role(broker), _keeper_role(keeper))]
        return [
            *(
                self._process(("keeper", os.fspath(each.config_file)), each.log_file, _keeper_role(each))
                for each in self.keepers
            ),
            *(
                self._process(("broker", os.fspath(each.config_file)), each.log_file, _broker_role(each))
                for each in self.brokers
            ),
        ]

    def _process(self, arguments: tuple[str, ...], log_file: Path, *roles: Role) -> ProcessPlan:
        return ProcessPlan((*arguments, *["--insecure"] * self.insecure), log_file, roles)

    def ready_line(self) -> str:
        brokers = ",".join(str(plan.address) for plan in self.brokers)
        keepers = ",".join(str(plan.client) for plan in self.keepers)
        return f"ready: bootstrap={brokers} keeper={keepers} console= rest="


def parse_address(text: str) -> Address:
    """What ``str`` makes of an address, back."""
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def plan_cluster(wish: Wish) -> ClusterPlan:
    """Choose folders and ports, and write the files that the processes will read."""
    if not (wish.insecure or Address(wish.host, 0).is_loopback):
        raise ConfigError(
            f"--host {wish.host}: can be reached from other machines, and there is no access control yet;"
            " use a loopback address, or allow it with --insecure"
        )
    check_host(wish.host)
    brokers = _count("broker", brokers_there(wish.folder), wish.brokers, wish.folder, default=lambda: 1)
    keepers = _count(
        "keeper", keepers_there(wish.folder), wish.keepers, wish.folder, default=lambda: 1 if brokers == 1 else ENSEMBLE
    )
    broker_ports = _ports("broker", "--port", wish.host, wish.broker_port, brokers, taken=())
    keeper_ports = _ports("keeper", "--keeper-port", wish.host, wish.keeper_port, keepers, taken=broker_ports)
    taken = {*broker_ports, *keeper_ports}
    spare = iter([port for port in free_ports(wish.host, 3 * keepers + brokers + len(taken)) if port not in taken])
    plan = ClusterPlan(
        [
            KeeperPlan(
                id=number,
                folder=wish.folder / f"keeper-{number}",
                client=Address(wish.host, port),
                quorum=Address(wish.host, next(spare)),
                election=Address(wish.host, next(spare)),
                metrics=Address(wish.host, next(spare)),
            )
            for number, port in enumerate(keeper_ports, 1)
        ],
        [
            BrokerPlan(
                id=_broker_id(wish, brokers, number),
                folder=wish.folder / f"broker-{number}",
                address=Address(wish.host, port),
                metrics=Address(wish.host, next(spare)),
            )
            for number, port in enumerate(broker_ports, 1)
        ],
        wish.insecure,
    )
    _write(plan, wish)
    return plan


def _write(plan: ClusterPlan, wish: Wish) -> None:
    """Every file, or nothing in folders that were not there before."""
    folders = [*(keeper.folder for keeper in plan.keepers), *(broker.folder for broker in plan.brokers)]
    new = [folder for folder in folders if not folder.exists()]
    connect = ",".join(str(keeper.client) for keeper in plan.keepers)
    try:
        write_keepers(plan.keepers, wish.keeper_settings, insecure=wish.insecure)
        write_brokers(plan.brokers, connect, wish.broker_settings, insecure=wish.insecure)
    except BaseException:
        for folder in new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _broker_id(wish: Wish, brokers: int, number: int) -> int:
    """The number of a broker, unless it has data of its own that go by another."""
    given = wish.broker_settings.get("broker.id")
    if given is None:
        return number
    if brokers > 1 or not given.isdecimal():
        raise ConfigError(f"broker.id={given}: must be a number, and can be given where there is one broker only")
    return int(given)


def _count(what: str, there: list[int], asked: int | None, folder: Path, *, default: Callable[[], int]) -> int:
    """Servers that hold data must be there again: what they know, the others may not."""
    if not there:
        return default() if asked is None else asked
    if there != list(range(1, len(there) + 1)):
        raise ConfigError(
            f"{folder}: holds the {what}s {there}, and some are missing; restore them or choose another --dir"
        )
    if asked not in (None, len(there)):
        raise ConfigError(
            f"--{what}s {asked}: {folder} holds {len(there)}, and their number cannot change; choose another --dir"
        )
    return len(there)


def _ports(what: str, option: str, host: str, first: int, count: int, *, taken: Sequence[int]) -> list[int]:
    if first == 0:
        return [port for port in free_ports(host, count + len(taken)) if port not in taken][:count]
    ports = list(range(first, first + count))
    for port in ports:
        if port > PORT_MAX:
            raise ConfigError(
                f"{option} {first}: {count} {what}s need ports up to {ports[-1]}, and {PORT_MAX} is the last one"
            )
        if not is_free(host, port) or port in taken:
            raise ConfigError(
                f"port {port} on {host} is taken; choose another with {option}, or 0 for any that is free"
            )
    return ports


def _broker_role(plan: BrokerPlan) -> Role:
    return Role("broker", plan.id, plan.address, f"http://{plan.metrics}/metrics")


def _keeper_role(plan: KeeperPlan) -> Role:
    return Role("keeper", plan.id, plan.client, f"http://{plan.metrics}/metrics")
