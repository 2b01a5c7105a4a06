"""``acceptedEpoch`` and ``currentEpoch``: the two promises a server of an ensemble keeps across restarts.

Each is a file beside the snapshots that holds one decimal number and nothing else, as ZooKeeper writes it.

    acceptedEpoch   the newest epoch whose leader this server agreed to follow; it follows none older
    currentEpoch    the epoch whose history this server holds completely; elections are decided by it first

``acceptedEpoch`` is written before the server answers a prospective leader, ``currentEpoch`` only after the
leader's whole history is on disk (ZOOKEEPER-4643: the other way round, a stale server wins an election and
truncates what was committed). Both are replaced as a whole and synced before the call returns.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ottla.base.errors import CorruptionError
from ottla.keeper.store.durable import write_atomically

logger = logging.getLogger(__name__)

ACCEPTED_EPOCH = "acceptedEpoch"
CURRENT_EPOCH = "currentEpoch"
EPOCH_MAX = (1 << 31) - 1
_BYTES_MAX = 32


def epoch_of(zxid: int) -> int:
    return zxid >> 32


def read_epoch(directory: Path, name: str) -> int | None:
    """The number in the file; None if there is no such file."""
    path = directory / name
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    text = raw.strip()
    if len(raw) > _BYTES_MAX or not text.isdigit() or int(text) > EPOCH_MAX:
        raise CorruptionError(
            f"{path}: holds {raw[:_BYTES_MAX]!r}, not an epoch. The number cannot be guessed safely: "
            f"empty this server's data directories and let it synchronize from the ensemble"
        )
    return int(text)


def write_epoch(directory: Path, name: str, epoch: int) -> None:
    assert 0 <= epoch <= EPOCH_MAX, f"{name} {epoch}"
    write_atomically(directory / name, str(epoch).encode())


def settle_epochs(directory: Path, last_zxid: int) -> tuple[int, int]:
    """Accepted and current epoch of a server whose history ends at ``last_zxid``.

    Where a file is missing, the epoch of that zxid is written, as ZooKeeper does. A history that has gone beyond
    ``currentEpoch`` is what a crash leaves between the last write of a synchronization and that file: the
    transactions come in order, so the server holds that epoch's history as far as it goes, and says so.
    """
    held = epoch_of(last_zxid)
    stored_accepted, stored_current = read_epoch(directory, ACCEPTED_EPOCH), read_epoch(directory, CURRENT_EPOCH)
    accepted = held if stored_accepted is None else stored_accepted
    current = held if stored_current is None or stored_current < held else stored_current
    if current > accepted:
        raise CorruptionError(
            f"{directory}: acceptedEpoch {stored_accepted}, currentEpoch {stored_current} and a history up to epoch "
            f"{held} do not go together. Empty this server's data directories and let it synchronize"
        )
    if accepted != stored_accepted:
        write_epoch(directory, ACCEPTED_EPOCH, accepted)
    if current != stored_current:
        logger.info("%s: currentEpoch was %s and is now %d", directory, stored_current, current)
        write_epoch(directory, CURRENT_EPOCH, current)
    return accepted, current
