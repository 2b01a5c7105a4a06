"""Our server with a deliberate mistake in it, for tests that show that the witness notices.

    python -m tests.chaos.sabotage MISTAKE keeper FILE.cfg
    python -m tests.chaos.sabotage MISTAKE broker FILE.properties

Each mistake replaces one function of the product in this process, and names the guarantee it breaks.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence

from ottla.cli.main import main
from ottla.keeper.clientport import ClientConnection
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import ConnectRequest
from ottla.keeper.quorum.effects import Effects
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.quorum.messages import Commit
from ottla.keeper.server.clients import Client
from ottla.keeper.server.frontend import Frontend
from ottla.keeper.server.sessions import SessionTracker
from ottla.log import files, loader, segment
from ottla.log.producers import ProducerState
from ottla.net import FrameReader
from ottla.replica.leadership import Leadership


def replace(owner: object, name: str, by: Callable[..., object]) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} any more"
    setattr(owner, name, by)


def never_sync() -> None:
    """Z2: say that transactions are on disk when they are not."""

    def sync(_fd: int) -> None:
        pass

    replace(os, "fdatasync", sync)


def commit_alone() -> None:
    """Z1, Z2: acknowledge what the leader alone has on disk."""

    def maybe_commit(leading: Leading, effects: Effects) -> None:
        zxid = min(leading.durable.synced_zxid, leading.recent.last_zxid)
        if zxid > leading.committed_zxid:
            leading.committed_zxid = effects.commit = zxid
            effects.send += [(learner.link, Commit(zxid)) for learner in leading.learners if learner.synced]

    replace(Leading, "_maybe_commit", maybe_commit)


def answer_backwards() -> None:
    """Z5: the requests of a pipeline in the wrong order."""
    opened = ClientConnection.opened

    class Backwards(FrameReader):
        def feed(self, data: bytes) -> list[bytes]:
            return super().feed(data)[::-1]

    def open_backwards(connection: ClientConnection) -> None:
        connection._reader = Backwards(connection._reader.bytes_max)
        opened(connection)

    replace(ClientConnection, "opened", open_backwards)


def attach_alone() -> None:
    """Z6: a server takes a client back by itself, however much more that has seen."""

    def reattach(frontend: Frontend, client: Client, session_id: int) -> None:
        client.session_id = session_id
        frontend.by_session[session_id] = client
        frontend._session_opened(client)

    def refuse(_frontend: Frontend, _request: ConnectRequest) -> str | None:
        return None

    replace(Frontend, "_reattach", reattach)
    replace(Frontend, "_refuse", refuse)


def sync_alone() -> None:
    """Z7: a server answers a sync by itself, whatever it has missed."""
    submit: Callable[..., None] = Frontend._submit

    def local(frontend: Frontend, client: Client, xid: int, type_: int, *rest: object) -> None:
        if type_ == OpCode.SYNC:
            frontend.synced(client.session_id, xid)
        else:
            submit(frontend, client, xid, type_, *rest)

    replace(Frontend, "_submit", local)


def tell_late() -> None:
    """Z8: events a while after the change, behind answers that show it."""
    notify = Client.notify

    def later(client: Client, frame: bytes) -> None:
        asyncio.get_running_loop().call_later(0.05, notify, client, frame)

    replace(Client, "notify", later)


def expire_early() -> None:
    """Z9: half of a session's time is enough."""
    track = SessionTracker._track

    def impatient(tracker: SessionTracker, session_id: int, timeout_ms: int) -> None:
        track(tracker, session_id, timeout_ms // 2)

    replace(SessionTracker, "_track", impatient)


def write_later() -> None:
    """L1: acknowledge what is not even in the page cache; each batch is written when the next one comes."""
    real = files.write_at
    pending: list[tuple[int, list[bytes], int]] = []

    def late(fd: int, parts: Sequence[bytes | memoryview], position: int) -> int:
        if pending:
            real(*pending.pop())
        pending.append((fd, [bytes(part) for part in parts], position))
        return sum(map(len, parts))

    replace(segment, "write_at", late)


def forget_producers() -> None:
    """L16: what is known of producers is kept in memory only."""

    def nothing(producers: ProducerState, *_: object, end: int, now_ms: int, **__: object) -> int:
        producers.reset((), end, now_ms=now_ms)
        return -1

    replace(loader, "load_producers", nothing)


def acknowledge_alone() -> None:
    """L1: acknowledge what no follower has fetched."""
    replace(Leadership, "replicated_to", lambda _leadership, end_offset: end_offset)


MISTAKES: dict[str, Callable[[], None]] = {
    mistake.__name__: mistake
    for mistake in (
        never_sync,
        commit_alone,
        answer_backwards,
        attach_alone,
        sync_alone,
        tell_late,
        expire_early,
        write_later,
        forget_producers,
        acknowledge_alone,
    )
}


if __name__ == "__main__":
    MISTAKES[sys.argv.pop(1)]()
    main()
