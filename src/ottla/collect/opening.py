"""Plans opened: sockets that listen, files that are followed, and the sources that read them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.base.errors import Error
from ottla.collect.batches import Positions
from ottla.collect.filesystem import RealFileSystem
from ottla.collect.plan import HTTP, SYSLOG_TCP, SYSLOG_UDP, Address, Plan
from ottla.collect.sources import Desk, FileSource, Source, StdinSource, SyslogTcpSource, SyslogUdpSource, of_topic
from ottla.collect.tailing import Tailer

_BACKLOG = 1024
_DATAGRAMS_BYTES = 4 << 20
"""What the system may hold of datagrams while nobody reads."""


class ListenError(Error):
    """An address that cannot be listened on."""


class Opened(NamedTuple):
    plan: Plan
    listening: Mapping[str, socket.socket]

    def told(self) -> str:
        """What it reads, in a few words."""
        words = [f"files={len(self.plan.files)}"] if self.plan.files else []
        words += ["stdin"] if self.plan.stdin else []
        for name, each in self.listening.items():
            host, port = each.getsockname()[:2]
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            words.append(f"{name}={'http://' if name == HTTP else ''}{shown}")
        return " ".join(words)

    def tailer(self, positions: Positions) -> Tailer | None:
        """``positions``: of all files of all plans, as the spool knows them."""
        plan = self.plan
        if not plan.files:
            return None
        return Tailer(
            RealFileSystem(),
            plan.files,
            of_topic(positions, plan.topic),
            line_bytes_max=plan.line_bytes,
            from_end=plan.from_end,
            compressed=plan.compressed,
        )

    def sources(self, desk: Desk, tailer: Tailer | None, *, poll_s: float, is_once: bool) -> list[Source]:
        made: list[Source] = []
        if tailer is not None:
            made.append(FileSource(desk, tailer, poll_s=poll_s, is_once=is_once))
        if self.plan.stdin:
            made.append(StdinSource(desk))
        if SYSLOG_UDP in self.listening:
            made.append(SyslogUdpSource(desk, self.listening[SYSLOG_UDP]))
        if SYSLOG_TCP in self.listening:
            made.append(SyslogTcpSource(desk, self.listening[SYSLOG_TCP]))
        if HTTP in self.listening:
            from ottla.collect.httpport import HttpSource  # which loads h11

            plan = self.plan
            made.append(HttpSource(desk, self.listening[HTTP], body_bytes_max=plan.body_bytes, origins=plan.origins))
        return made


def open_plans(plans: Sequence[Plan]) -> list[Opened]:
    """Whatever cannot be listened on is told before anything is collected."""
    return [Opened(plan, {name: _listen(name, at) for name, at in plan.ports.items()}) for plan in plans]


def _listen(name: str, address: Address) -> socket.socket:
    kind = socket.SOCK_DGRAM if name == SYSLOG_UDP else socket.SOCK_STREAM
    try:
        family = socket.getaddrinfo(*address, type=kind)[0][0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind == socket.SOCK_STREAM))
        if kind == socket.SOCK_DGRAM:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _DATAGRAMS_BYTES)
        listening.bind(address)
        if kind == socket.SOCK_STREAM:
            listening.listen(_BACKLOG)
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise ListenError(f"--{name}: cannot listen on {where}: {error.strerror or error}") from None
    return listening
