"""Namespaces of the kernel, held by a process of their own, so that nothing outlives the tests however they end.

A ``Holder`` is a ``cat`` in new namespaces that waits for the end of its input, a pipe from this process. Others enter
them by its id. Needs root.
"""

from __future__ import annotations

import ctypes
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.client import Address
from tests.peers import wait_until

NOBODY = "02:00:00:00:ff:ff"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Holder:
    """New namespaces: ``kinds`` are options of unshare, such as ``--net``."""

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds
        self._child = subprocess.Popen(["unshare", *kinds, "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            wait_until(self._is_inside, timeout_s=120, what="new namespaces")
        except BaseException:
            self.close()
            raise

    def _is_inside(self) -> bool:
        assert self._child.poll() is None, f"unshare {self._kinds} needs root"
        return Path(f"/proc/{self.pid}/comm").read_text().strip() == "cat"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def enter(self) -> list[str]:
        """What to put before a command so that it runs inside."""
        kinds = [kind.partition("=")[0] for kind in self._kinds]
        return ["nsenter", f"--target={self.pid}", *kinds, "--"]

    def run(self, *command: str | Path) -> None:
        done = subprocess.run([*self.enter, *map(str, command)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr.strip()}"

    def path(self, inside: Path) -> Path:
        """A path of its mount namespace, as seen from here."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(120)


@contextmanager
def inside_network(holder: Holder) -> Iterator[None]:
    """This thread in the network of ``holder``; sockets made here stay there."""
    with Path("/proc/thread-self/ns/net").open() as home, Path(f"/proc/{holder.pid}/ns/net").open() as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """Computers, one namespace each, on a bridge that stands in a namespace of its own, where the clients are.

    Addresses of the link layer are fixed. To cut the way from one computer to another, the first is told a wrong one:
    what it sends is lost without a word, in that direction only, and connections stay as they are on both ends.
    """

    def __init__(self, count: int) -> None:
        self._holders: list[Holder] = []
        try:
            self.hub = self._hold()
            self.computers = [self._hold() for _ in range(count)]
            self._connect()
        except BaseException:
            self.close()
            raise

    def _hold(self) -> Holder:
        holder = Holder("--net")
        self._holders.append(holder)
        return holder

    def _connect(self) -> None:
        batch(
            self.hub, "link set lo up", "link add br0 type bridge", f"addr add {ip(-1)}/24 dev br0", "link set br0 up"
        )
        for index, computer in enumerate(self.computers):
            batch(
                self.hub,
                f"link add v{index} type veth peer name eth0 address {mac(index)} netns {computer.pid}",
                f"link set v{index} master br0 up",
            )
            batch(computer, "link set lo up", f"addr add {ip(index)}/24 dev eth0", "link set eth0 up")
        for index in range(len(self.computers)):
            self.mend(index)

    def cut(self, source: int, *targets: int) -> None:
        """Lose whatever ``source`` sends to ``targets``."""
        self._tell(source, dict.fromkeys(targets, NOBODY))

    def mend(self, source: int) -> None:
        self._tell(source, {target: mac(target) for target in range(len(self.computers)) if target != source})

    def split(self, *sides: Sequence[int]) -> None:
        """Lose everything between computers of different sides."""
        for side in sides:
            others = [index for other in sides if other is not side for index in other]
            for source in side:
                self.cut(source, *others)

    def heal(self) -> None:
        for index in range(len(self.computers)):
            self.mend(index)

    def _tell(self, source: int, macs: dict[int, str]) -> None:
        batch(
            self.computers[source],
            *(f"neigh replace {ip(to)} lladdr {address} dev eth0 nud permanent" for to, address in macs.items()),
        )

    def open_socket(self, address: Address, timeout_s: float) -> socket.socket:
        """As ``socket.create_connection``, for a client on the hub."""
        with inside_network(self.hub):
            return socket.create_connection(address, timeout_s)

    def close(self) -> None:
        while self._holders:
            self._holders.pop().close()


def ip(index: int) -> str:
    """Of a computer; of the hub, where the clients are, for -1."""
    return f"10.77.0.{index + 10}"


def mac(index: int) -> str:
    return f"02:00:00:00:00:{index + 10:02x}"


def batch(holder: Holder, *lines: str) -> None:
    """Commands of ``ip``, in the network of ``holder``."""
    done = subprocess.run(
        [*holder.enter, "ip", "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{lines}: {done.stderr.strip()}"
