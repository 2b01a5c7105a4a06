"""One experiment: an ensemble, load on it, faults by the caller, and the verdict of the witness at the end.

    with trial(OttlaKeepers(3, folder, settings=SMALL_TICKS), folder) as (keepers, load):
        keepers.kill(keepers.leader())
        load.wait_acked(50)

When the block ends, dead servers are started again, every client catches up and closes its session, every server gets
the last write, all are killed, and their data directories are held against what the clients saw.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.chaos.client import Address, Opener
from tests.chaos.history import Event, History, operations
from tests.chaos.load import Load
from tests.chaos.remains import read_remains
from tests.chaos.witness import OTTLA, Rules, check
from tests.peers import Ensemble, wait_until

E = TypeVar("E", bound=Ensemble)

TICK_MS = 200
SYNC_LIMIT = 5
INIT_LIMIT = 50
SYNC_S = TICK_MS * SYNC_LIMIT / 1000
"""After this long a silence, leader and followers give each other up."""
INIT_S = TICK_MS * INIT_LIMIT / 1000
"""So long a follower may take to join."""
SMALL_TICKS = {
    "tickTime": str(TICK_MS),
    "initLimit": str(INIT_LIMIT),
    "syncLimit": str(SYNC_LIMIT),
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
}
FINDINGS_SHOWN = 20
RULES = OTTLA._replace(early_ms=TICK_MS)
"""A follower passes on what it heard of its clients every half tick, and a dead one no more."""


def addresses(ensemble: Ensemble) -> list[Address]:
    return [("127.0.0.1", port) for port in ensemble.client_ports]


@contextmanager
def trial(
    ensemble: E,
    folder: Path,
    *,
    rules: Rules = RULES,
    servers: list[Address] | None = None,
    open_socket: Opener = socket.create_connection,
    data: Sequence[Path] | None = None,
    workers: int = 4,
    silence_s: float = 2.0,
) -> Iterator[tuple[E, Load]]:
    """``data`` are the data directories to judge, where they are not where the ensemble thinks."""
    history = History(folder / "history.jsonl")
    servers = servers or addresses(ensemble)
    load = Load(servers, history, workers=workers, silence_s=silence_s, open_socket=open_socket)
    try:
        with ensemble:
            with load:
                yield ensemble, load
                revive(ensemble)
                load.finish()
            wait_level(servers, newest_zxid(history.events), open_socket)
        findings = judge(history, folder, data or data_of(ensemble), rules)
    finally:
        history.close()
    assert not findings, f"{len(findings)} findings, see {folder}:\n" + "\n".join(findings[:FINDINGS_SHOWN])


def revive(ensemble: Ensemble) -> None:
    """Every server runs and serves."""
    for server in ensemble.servers:
        server.resume()
        if not server.running:
            server.start()
    ensemble.wait_ready()


def newest_zxid(events: list[Event]) -> int:
    return max((op.zxid for op in operations(events) if op.phase == "ok"), default=0)


def wait_level(servers: Iterable[Address], zxid: int, open_socket: Opener = socket.create_connection) -> None:
    """Until every server has applied ``zxid``."""
    for address in servers:

        def has_it(address: Address = address) -> bool:
            return server_zxid(address, open_socket) >= zxid

        wait_until(has_it, timeout_s=120, what=f"{address} has 0x{zxid:x}")


def server_zxid(address: Address, open_socket: Opener = socket.create_connection) -> int:
    """How far a server is; -1 where it does not say."""
    try:
        with open_socket(address, 5) as peer, peer.makefile("r") as answer:
            peer.sendall(b"srvr")
            found = [line.split()[1] for line in answer if line.startswith("Zxid: ")]
    except OSError:
        return -1
    return int(found[0], 16) if found else -1


def judge(history: History, folder: Path, data: Sequence[Path], rules: Rules = RULES) -> list[str]:
    """What the witness says about servers that have been stopped, by their data directories."""
    remains = [read_remains(str(number), path, folder) for number, path in enumerate(data, 1)]
    return check(history.events, remains, rules)


def data_of(ensemble: Ensemble) -> list[Path]:
    return [ensemble.data(index) for index in range(len(ensemble.servers))]
