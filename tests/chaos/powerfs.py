"""A file system in memory that loses at a power cut whatever was not synced, as real disks do and the page cache hides.

    unshare --mount python -m tests.chaos.powerfs MOUNTPOINT

It speaks the kernel's FUSE protocol itself, over ``/dev/fuse``. Every file has two contents, the one that reads show and
the one on disk; ``fsync`` copies the first over the second, page by page. Every directory has two lists of names
alike, and only ``fsync`` of the directory makes names safe, not that of the file. Commands come by standard input:

    cut SEED     a power cut. Of what was not synced, a random part survives, as it does: any of the pages written to
                 a file, one of them torn at a sector; the first few of the changes to a directory. No file is open.
    cut none     a power cut with which everything goes that was not synced

The end of the input is the end of the file system, and of all that was in it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import select
import stat
import sys
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

PAGE, SECTOR = 4096, 512
WRITE_MAX = 1 << 20
ROOT = 1

_IN = Struct("<IIQQIIIHH")
_OUT = Struct("<IiQ")
_ATTR = Struct("<6Q10I")
_ENTRY = Struct("<4Q2I")
_ATTR_OUT = Struct("<QII")
_OPEN_OUT = Struct("<QII")
_INIT_IN = Struct("<IIII")
_INIT_OUT = Struct("<IIIIHHIIHHI28x")
_READ_IN = Struct("<QQI")
_WRITE_IN = Struct("<QQIIQII")
_SETATTR_IN = Struct("<IIQQ")
_DIRENT = Struct("<QQII")
_STATFS = Struct("<5Q4I24x")
_SIZE_IS_SET = 1 << 3
_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22


class Op(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    RENAME2 = 45


class File:
    """Bytes as read, bytes on disk, and the pages in which they may differ."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.disk = bytearray()
        self.dirty: set[int] = set()

    def write(self, offset: int, data: bytes) -> None:
        if offset > len(self.data):
            self.resize(offset)
        self.data[offset : offset + len(data)] = data
        self.dirty.update(range(offset // PAGE, (offset + len(data) + PAGE - 1) // PAGE))

    def resize(self, size: int) -> None:
        old = len(self.data)
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
        self.dirty.update(range(min(old, size) // PAGE, (max(old, size) + PAGE - 1) // PAGE))

    def sync(self) -> None:
        self._put_on_disk(self.dirty)
        del self.disk[len(self.data) :]
        self.dirty.clear()

    def cut(self, draw: random.Random | None) -> None:
        if draw is not None and self.dirty:
            survivors = sorted(page for page in self.dirty if draw.random() < 0.5)
            self._put_on_disk(survivors)
            if survivors:
                self._tear(draw.choice(survivors), draw)
        self.data = bytearray(self.disk)
        self.dirty.clear()

    def _put_on_disk(self, pages: set[int] | list[int]) -> None:
        for page in sorted(pages):
            start = page * PAGE
            part = self.data[start : start + PAGE]
            if part:
                self.disk.extend(bytes(max(0, start - len(self.disk))))
                self.disk[start : start + len(part)] = part

    def _tear(self, page: int, draw: random.Random) -> None:
        """Of this page, only some sectors reached the disk; the others are as nothing was ever written there."""
        start = page * PAGE + draw.randrange(SECTOR, PAGE, SECTOR)
        stop = min((page + 1) * PAGE, len(self.disk))
        if start < stop:
            self.disk[start:stop] = bytes(stop - start)


class Directory:
    """Names as listed, names on disk, and the changes between them in their order."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.disk: dict[str, int] = {}
        self._changes: list[dict[str, int]] = []

    def change(self, changed: Callable[[dict[str, int]], object]) -> None:
        changed(self.names)
        self._changes.append(dict(self.names))

    def sync(self) -> None:
        self.disk = dict(self.names)
        self._changes.clear()

    def cut(self, draw: random.Random | None) -> None:
        if draw is not None and self._changes:
            survived = draw.randint(0, len(self._changes))
            self.disk = self._changes[survived - 1] if survived else self.disk
        self.names = dict(self.disk)
        self._changes.clear()


class Tree:
    """All inodes, by number. One that has no name left stays: nobody minds in a file system that lives for seconds."""

    def __init__(self) -> None:
        self.inodes: dict[int, File | Directory] = {ROOT: Directory()}

    def file(self, number: int) -> File:
        inode = self.inodes[number]
        assert isinstance(inode, File)
        return inode

    def directory(self, number: int) -> Directory:
        inode = self.inodes[number]
        assert isinstance(inode, Directory)
        return inode

    def add(self, parent: int, name: str, inode: File | Directory) -> int:
        number = len(self.inodes) + 1
        self.inodes[number] = inode
        self.directory(parent).change(lambda names: names.update({name: number}))
        return number

    def cut(self, seed: str) -> None:
        draw = None if seed == "none" else random.Random(seed)
        for inode in self.inodes.values():
            inode.cut(draw)


class Server:
    """Answers the kernel."""

    def __init__(self, tree: Tree, device: int) -> None:
        self._tree = tree
        self._device = device

    def serve_one(self) -> bool:
        """Read and answer one request; False once the file system is unmounted."""
        try:
            request = os.read(self._device, WRITE_MAX + PAGE)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR)
        _, opcode, unique, number, *_ = _IN.unpack_from(request)
        if opcode in (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT):
            return True
        try:
            answer, error_number = self._answer(opcode, number, request[_IN.size :]), 0
        except OSError as error:
            answer, error_number = b"", -(error.errno or errno.EIO)
        os.write(self._device, _OUT.pack(_OUT.size + len(answer), error_number, unique) + answer)
        return True

    def _answer(self, opcode: int, number: int, body: bytes) -> bytes:
        handler = _HANDLERS.get(opcode)
        if handler is None:
            raise OSError(errno.ENOSYS, "")
        return handler(self, number, body)

    def init(self, _number: int, body: bytes) -> bytes:
        major, minor, readahead, _flags = _INIT_IN.unpack_from(body)
        return _INIT_OUT.pack(
            major, min(minor, 31), readahead, _BIG_WRITES | _MAX_PAGES, 16, 12, WRITE_MAX, 1, WRITE_MAX // PAGE, 0, 0
        )

    def lookup(self, number: int, body: bytes) -> bytes:
        found = self._tree.directory(number).names.get(_name(body))
        if found is None:
            raise OSError(errno.ENOENT, "")
        return self._entry(found)

    def getattr(self, number: int, _body: bytes) -> bytes:
        return _ATTR_OUT.pack(0, 0, 0) + self._attributes(number)

    def setattr(self, number: int, body: bytes) -> bytes:
        valid, _, _, size = _SETATTR_IN.unpack_from(body)
        if valid & _SIZE_IS_SET:
            self._tree.file(number).resize(size)
        return self.getattr(number, b"")

    def mkdir(self, number: int, body: bytes) -> bytes:
        return self._entry(self._tree.add(number, _name(body[8:]), Directory()))

    def create(self, number: int, body: bytes) -> bytes:
        return self._entry(self._tree.add(number, _name(body[16:]), File())) + self.open(0, b"")

    def remove(self, number: int, body: bytes) -> bytes:
        name = _name(body)
        self._tree.directory(number).change(lambda names: names.pop(name))
        return b""

    def rename(self, number: int, body: bytes, head: int = 8) -> bytes:
        target = int.from_bytes(body[:8], "little")
        if target != number:
            raise OSError(errno.EXDEV, "")
        old, new, _ = body[head:].decode().split("\0")
        self._tree.directory(number).change(lambda names: names.update({new: names.pop(old)}))
        return b""

    def rename2(self, number: int, body: bytes) -> bytes:
        return self.rename(number, body, 16)

    def open(self, _number: int, _body: bytes) -> bytes:
        return _OPEN_OUT.pack(0, 0, 0)

    def read(self, number: int, body: bytes) -> bytes:
        _, offset, size = _READ_IN.unpack_from(body)
        return bytes(self._tree.file(number).data[offset : offset + size])

    def write(self, number: int, body: bytes) -> bytes:
        _, offset, size, *_ = _WRITE_IN.unpack_from(body)
        self._tree.file(number).write(offset, body[_WRITE_IN.size : _WRITE_IN.size + size])
        return int(size).to_bytes(8, "little")

    def sync(self, number: int, _body: bytes) -> bytes:
        self._tree.inodes[number].sync()
        return b""

    def list(self, number: int, body: bytes) -> bytes:
        _, offset, size = _READ_IN.unpack_from(body)
        out = bytearray()
        for at, (name, found) in enumerate(list(self._tree.directory(number).names.items())[offset:], offset + 1):
            raw = name.encode()
            kind = stat.S_IFMT(self._mode(found)) >> 12
            entry = _DIRENT.pack(found, at, len(raw), kind) + raw
            entry += bytes(-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return bytes(out)

    def statfs(self, _number: int, _body: bytes) -> bytes:
        return _STATFS.pack(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, PAGE, 255, PAGE, 0)

    def nothing(self, _number: int, _body: bytes) -> bytes:
        return b""

    def _entry(self, number: int) -> bytes:
        return _ENTRY.pack(number, 0, 0, 0, 0, 0) + self._attributes(number)

    def _attributes(self, number: int) -> bytes:
        inode = self._tree.inodes[number]
        size = len(inode.data) if isinstance(inode, File) else 0
        return _ATTR.pack(
            number, size, (size + SECTOR - 1) // SECTOR, 0, 0, 0, 0, 0, 0, self._mode(number), 1, 0, 0, 0, PAGE, 0
        )  # fmt: skip

    def _mode(self, number: int) -> int:
        return stat.S_IFREG | 0o644 if isinstance(self._tree.inodes[number], File) else stat.S_IFDIR | 0o755


def _name(body: bytes) -> str:
    return body.partition(b"\0")[0].decode()


_HANDLERS: dict[int, Callable[[Server, int, bytes], bytes]] = {
    Op.INIT: Server.init,
    Op.LOOKUP: Server.lookup,
    Op.GETATTR: Server.getattr,
    Op.SETATTR: Server.setattr,
    Op.MKDIR: Server.mkdir,
    Op.CREATE: Server.create,
    Op.UNLINK: Server.remove,
    Op.RMDIR: Server.remove,
    Op.RENAME: Server.rename,
    Op.RENAME2: Server.rename2,
    Op.OPEN: Server.open,
    Op.OPENDIR: Server.open,
    Op.READ: Server.read,
    Op.WRITE: Server.write,
    Op.FSYNC: Server.sync,
    Op.FSYNCDIR: Server.sync,
    Op.READDIR: Server.list,
    Op.STATFS: Server.statfs,
    Op.FLUSH: Server.nothing,
    Op.RELEASE: Server.nothing,
    Op.RELEASEDIR: Server.nothing,
    Op.DESTROY: Server.nothing,
}


def mount(point: str) -> int:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"powerfs", point.encode(), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount on {point}")
    return device


def main() -> None:
    tree = Tree()
    server = Server(tree, mount(sys.argv[1]))
    device, commands = server._device, sys.stdin.fileno()
    print("mounted", flush=True)
    while True:
        ready, _, _ = select.select([device, commands], [], [])
        if commands in ready:
            line = os.read(commands, PAGE).decode()
            if not line:
                return
            tree.cut(line.split()[1])
            print("cut", flush=True)
        elif not server.serve_one():
            return


if __name__ == "__main__":
    main()
