"""Our server with a deliberate mistake in it, for tests that show that the witness notices.

    python -m tests.chaos.sabotage MISTAKE keeper FILE.cfg

Each mistake replaces one function of the product in this process, and names the guarantee it breaks.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from ottla.cli.main import main
from ottla.keeper.clientport import ClientConnection
from ottla.keeper.proto.records import ConnectRequest
from ottla.keeper.quorum.effects import Effects
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.quorum.messages import Commit
from ottla.keeper.server.clients import Client
from ottla.keeper.server.frontend import Frontend
from ottla.keeper.server.sessions import SessionTracker
from ottla.keeper.store import TxnLog


def never_sync() -> None:
    """Z2: say that transactions are on disk when they are not."""

    def sync(_fd: int) -> None:
        pass

    os.fdatasync = os.fsync = sync


def commit_alone() -> None:
    """Z1, Z2: acknowledge what the leader alone has on disk."""

    def maybe_commit(leading: Leading, effects: Effects) -> None:
        zxid = min(leading.durable.synced_zxid, leading.recent.last_zxid)
        if zxid > leading.committed_zxid:
            leading.committed_zxid = effects.commit = zxid
            effects.send += [(learner.link, Commit(zxid)) for learner in leading.learners if learner.synced]

    Leading._maybe_commit = maybe_commit  # type: ignore[method-assign]


def forget_the_last() -> None:
    """Z2, Z4: lose the end of each append, as a log that counts wrong."""
    append = TxnLog.append

    def forgetful(log: TxnLog, entries: list[object]) -> None:
        append(log, entries[:-1] if len(entries) > 1 else entries)  # type: ignore[arg-type]

    TxnLog.append = forgetful  # type: ignore[assignment, method-assign]


def answer_backwards() -> None:
    """Z5: the requests of a pipeline in the wrong order."""
    made = ClientConnection.__init__

    def make(connection: ClientConnection, *args: object, **options: object) -> None:
        made(connection, *args, **options)  # type: ignore[arg-type]
        feed = connection._reader.feed
        connection._reader.feed = lambda data: feed(data)[::-1]  # type: ignore[method-assign]

    ClientConnection.__init__ = make  # type: ignore[assignment, method-assign]


def let_everybody_in() -> None:
    """Z6: take clients that have seen more than this server."""
    refuse = Frontend._refuse

    def welcome(frontend: Frontend, request: ConnectRequest) -> str | None:
        return refuse(frontend, request._replace(last_zxid_seen=0))

    Frontend._refuse = welcome  # type: ignore[method-assign]


def tell_late() -> None:
    """Z8: events a while after the change, behind answers that show it."""
    notify = Client.notify

    def later(client: Client, frame: bytes) -> None:
        asyncio.get_running_loop().call_later(0.05, notify, client, frame)

    Client.notify = later  # type: ignore[method-assign]


def expire_early() -> None:
    """Z9: half of a session's time is enough."""
    track = SessionTracker._track

    def impatient(tracker: SessionTracker, session_id: int, timeout_ms: int) -> None:
        track(tracker, session_id, timeout_ms // 2)

    SessionTracker._track = impatient  # type: ignore[method-assign]


MISTAKES: dict[str, Callable[[], None]] = {
    mistake.__name__: mistake
    for mistake in (
        never_sync,
        commit_alone,
        forget_the_last,
        answer_backwards,
        let_everybody_in,
        tell_late,
        expire_early,
    )
}


if __name__ == "__main__":
    MISTAKES[sys.argv.pop(1)]()
    main()
