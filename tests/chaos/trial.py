"""One experiment: an ensemble, load on it, faults by the caller, and the verdict of the witness at the end.

    with trial(OttlaKeepers(3, folder, settings=SMALL_TICKS), folder) as (keepers, load):
        keepers.kill(keepers.leader())
        load.wait_acked(50)

When the block ends, dead servers are started again, every client catches up and closes its session, every server gets
the last write, all are killed, and their data directories are held against what the clients saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.chaos.client import Address, Opener
from tests.chaos.history import Event, History, operations
from tests.chaos.load import Load
from tests.chaos.remains import read_remains
from tests.chaos.witness import OTTLA, Rules, check
from tests.peers import Ensemble, four_letter_word, wait_until

E = TypeVar("E", bound=Ensemble)

TICK_MS = 200
SYNC_LIMIT = 5
SYNC_S = TICK_MS * SYNC_LIMIT / 1000
"""After this long a silence, leader and followers give each other up."""
SMALL_TICKS = {
    "tickTime": str(TICK_MS),
    "initLimit": "50",
    "syncLimit": str(SYNC_LIMIT),
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
}
FINDINGS_SHOWN = 20


def addresses(ensemble: Ensemble) -> list[Address]:
    return [("127.0.0.1", port) for port in ensemble.client_ports]


@contextmanager
def trial(
    ensemble: E,
    folder: Path,
    *,
    rules: Rules = OTTLA,
    servers: list[Address] | None = None,
    open_socket: Opener | None = None,
    workers: int = 4,
    silence_s: float = 2.0,
) -> Iterator[tuple[E, Load]]:
    history = History(folder / "history.jsonl")
    load = Load(
        servers or addresses(ensemble), history, workers=workers, silence_s=silence_s, open_socket=open_socket
    )
    try:
        with ensemble:
            with load:
                yield ensemble, load
                revive(ensemble)
                load.finish()
            wait_level(ensemble, newest_zxid(history.events))
        verdict(ensemble, history, folder, rules)
    finally:
        history.close()


def revive(ensemble: Ensemble) -> None:
    """Every server runs and serves."""
    for server in ensemble.servers:
        server.resume()
        if not server.running:
            server.start()
    ensemble.wait_ready()


def newest_zxid(events: list[Event]) -> int:
    return max((op.zxid for op in operations(events) if op.phase == "ok"), default=0)


def wait_level(ensemble: Ensemble, zxid: int) -> None:
    """Until every server has applied ``zxid``."""
    for index in range(len(ensemble.servers)):

        def has_it(index: int = index) -> bool:
            return server_zxid(ensemble.client_ports[index]) >= zxid

        wait_until(has_it, timeout_s=30, what=f"server {index} has 0x{zxid:x}")


def server_zxid(port: int) -> int:
    for line in four_letter_word(port, "srvr").splitlines():
        if line.startswith("Zxid: "):
            return int(line.split()[1], 16)
    return -1


def verdict(ensemble: Ensemble, history: History, folder: Path, rules: Rules = OTTLA) -> None:
    findings = judge(ensemble, history, folder, rules)
    assert not findings, f"{len(findings)} findings, see {folder}:\n" + "\n".join(findings[:FINDINGS_SHOWN])


def judge(ensemble: Ensemble, history: History, folder: Path, rules: Rules = OTTLA) -> list[str]:
    """What the witness says about servers that have been stopped."""
    remains = [
        read_remains(str(index + 1), ensemble.data(index), folder) for index in range(len(ensemble.servers))
    ]
    return check(history.events, remains, rules)
