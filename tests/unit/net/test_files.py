"""Bytes of files over real sockets: in their place among others, whatever the socket takes at once, and never others."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from ottla.base.filebytes import FileBytes
from ottla.net import Connection, Listener

SIZE = 6 << 20
"""More than a socket takes at once."""


class Range(FileBytes):
    def __init__(self, fd: int, position: int, length: int) -> None:
        super().__init__(position, length)
        self._fd = fd
        self.errors: list[OSError] = []

    @property
    def fd(self) -> int:
        return self._fd

    def read(self, skip: int = 0) -> bytes:
        try:
            return os.pread(self._fd, self.length - skip, self.position + skip)
        except OSError as error:
            self.errors.append(error)
            raise


class Sender(Connection):
    """Does with its first frame what the test wants."""

    def __init__(self, act: Callable[[Sender], None]) -> None:
        super().__init__(frame_bytes_max=1 << 20)
        self._act = act
        self.over = asyncio.Event()

    def received(self, frame: bytes) -> None:
        self._act(self)

    def ended(self, error: Exception | None) -> None:
        self.over.set()


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    data = os.urandom(SIZE)
    (tmp_path / "file").write_bytes(data)
    return data


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> int:
    assert len(content) == SIZE
    return os.open(tmp_path / "file", os.O_RDWR)


def received(act: Callable[[Sender], None], *, before: Callable[[], Awaitable[None]] | None = None) -> bytes:
    """All that a client gets after its first frame, until the connection ends."""

    async def main() -> bytes:
        made: list[Sender] = []

        def factory() -> Sender:
            made.append(Sender(act))
            return made[0]

        listener = Listener()
        await listener.listen(factory, "127.0.0.1", 0)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 16)
            async with asyncio.timeout(120):
                writer.write(b"\0\0\0\1x")
                if before is not None:
                    await before()
                try:
                    data = await reader.read()
                except ConnectionResetError:
                    data = b"reset"
                writer.transport.abort()
                await made[0].over.wait()
        finally:
            listener.stop()
            await asyncio.sleep(0.01)
        return data

    return uvloop.run(main())


def test_files_keep_their_place_among_other_parts(file: int, content: bytes) -> None:
    def act(sender: Sender) -> None:
        for position in (0, 1000, 5_000_000):
            sender.write(b"head")
            sender.write(Range(file, position, 200_000))
            sender.write(b"tail")
        sender.close()

    wanted = b"".join(b"head" + content[at : at + 200_000] + b"tail" for at in (0, 1000, 5_000_000))
    assert received(act) == wanted


def test_what_the_socket_does_not_take_follows(file: int, content: bytes) -> None:
    def act(sender: Sender) -> None:
        sender.write(b"head")
        sender.write(Range(file, 1, SIZE - 1))
        sender.write(Range(file, 0, SIZE))
        sender.write(b"tail")
        sender.close()

    assert received(act, before=lambda: asyncio.sleep(0.1)) == b"head" + content[1:] + content + b"tail"


def test_a_file_that_changes_after_the_turn_is_sent_as_it_was(file: int, content: bytes) -> None:
    def act(sender: Sender) -> None:
        sender.write(Range(file, 0, SIZE))
        # What the socket took is the kernel's, which sends pages as they are: that is why nobody writes over a log's bytes.
        asyncio.get_running_loop().call_soon(os.ftruncate, file, 0)
        sender.close()

    assert received(act, before=lambda: asyncio.sleep(0.1)) == content


def test_a_file_that_lacks_what_was_promised_costs_the_connection(file: int) -> None:
    def act(sender: Sender) -> None:
        sender.write(b"head")
        sender.write(Range(file, SIZE - 10, 20))
        assert sender.is_closing
        sender.write(b"never")

    assert b"never" not in received(act)


def refusing(number: int) -> Callable[..., int]:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return refuse


def test_a_file_that_cannot_be_read_is_told_and_costs_the_connection(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Range(file, 0, 100_000)

    def act(sender: Sender) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "sendfile", refusing(errno.EIO))
            patch.setattr(os, "pread", refusing(errno.EIO))
            sender.write(b"head")
            sender.write(found)
        assert sender.is_closing

    received(act)
    assert [error.errno for error in found.errors] == [errno.EIO]


def test_where_a_file_system_cannot_send_it_is_read(file: int, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Range(file, 0, 100_000)

    def act(sender: Sender) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "sendfile", refusing(errno.EINVAL))
            sender.write(b"head")
            sender.write(found)
        sender.close()

    assert received(act) == b"head" + content[:100_000]
    assert not found.errors


def test_descriptors_are_not_closed_twice(file: int, content: bytes) -> None:
    def act(sender: Sender) -> None:
        sender.write(Range(file, 0, 100_000))
        sender.close()

    received(act)  # what a first loop of a process opens stays
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        assert received(act) == content[:100_000]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert os.pread(file, 10, 0) == content[:10]
