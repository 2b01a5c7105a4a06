"""Compression: Kafka's four codecs, each in the framing that its clients write.

``unpack`` yields a batch's records in chunks of bounded size, whatever the sender claims: a batch of one megabyte can
unpack to terabytes, and nobody knows how far before it has been tried. A codec's own claims are checked before memory is
set aside for them.

    gzip      zlib's stream, CHUNK_BYTES at a time
    snappy    xerial framing, blocks of at most BLOCK_BYTES_MAX claimed; or one bare block, as some clients send
    lz4       the LZ4 frame, block by block; blocks that depend on each other are refused, as Kafka refuses them
    zstd      a stream with a window of at most WINDOW_BYTES_MAX

cramjam does the blocks; it has no decompressor that stops at a given output, so zlib and zstandard do the streams. Its
LZ4 frames have blocks that depend on each other, so the frame is written here.

xerial framing::

    82 53 4e 41 50 50 59 00    magic
    version i32, compatible version i32 (both 1)
    blocks: length i32, snappy block
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, Final

import zstandard

from ottla.records.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError

CHUNK_BYTES: Final = 64 << 10
BLOCK_BYTES_MAX: Final = 32 << 20
WINDOW_BYTES_MAX: Final = 128 << 20
UNPACKED_BYTES_MAX: Final = 256 << 20

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_I32: Final = struct.Struct(">i")

_LZ4_MAGIC: Final = 0x184D2204
# Version 1, independent blocks of 64 KiB, no checksums; the last byte is the checksum of the two before it.
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_END: Final = bytes(4)
_LZ4_U32: Final = struct.Struct("<I")
_LZ4_UNCOMPRESSED: Final = 0x8000_0000
_LZ4_BLOCK_BYTES: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_BY_NAME: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""The values of ``compression.type``, but for ``producer``."""


DEFAULT_LEVELS: Final = {Codec.NONE: 0, Codec.GZIP: -1, Codec.SNAPPY: 0, Codec.LZ4: 9, Codec.ZSTD: 3}
"""What ``compression.gzip.level`` and the like are where nobody says otherwise. LZ4's stands for its fast way."""
_CODECS: Final = tuple(Codec)


def _cramjam() -> Any:
    """Loaded once somebody needs it: 1.5 MB that a broker can do without until then."""
    import cramjam

    return cramjam


def codec_of(codec_id: int) -> Codec:
    if codec_id >= len(_CODECS):
        raise UnsupportedCompressionTypeError(f"no codec has the id {codec_id}")
    return _CODECS[codec_id]


def pack(codec: Codec, data: bytes) -> bytes:
    return b"".join(pack_stream(codec, (data,)))


def pack_stream(codec: Codec, chunks: Iterable[bytes], level: int | None = None) -> Iterator[bytes]:
    """What ``chunks`` pack to, in chunks; no more of them is held than a codec's block. Kafka's level if there is none."""
    return _PACKERS[codec](chunks, DEFAULT_LEVELS[codec] if level is None else level)


def unpack(codec: Codec, data: bytes | memoryview, *, limit: int = UNPACKED_BYTES_MAX) -> Iterator[bytes]:
    """What ``data`` unpacks to, in chunks; more than ``limit`` bytes of it are refused once they turn up."""
    if codec is Codec.NONE:
        yield bytes(data)
        return
    total = 0
    try:
        for chunk in _UNPACKERS[codec](bytes(data)):
            total += len(chunk)
            if total > limit:
                raise MessageTooLargeError(f"a batch unpacks to more than {limit} bytes")
            yield chunk
    except (zlib.error, zstandard.ZstdError, _cramjam().DecompressionError, OSError, ValueError, struct.error) as error:
        raise CorruptMessageError(f"{codec.name.lower()} data that cannot be unpacked: {error}") from error


def _unpack_gzip(data: bytes) -> Iterator[bytes]:
    rest = data
    while rest:
        stream = zlib.decompressobj(wbits=31)
        while not stream.eof:
            chunk = stream.decompress(rest, CHUNK_BYTES)
            rest = stream.unconsumed_tail
            if chunk:
                yield chunk
            elif not stream.eof:
                raise ValueError("it ends early")
        rest = stream.unused_data


def _unpack_snappy(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield _snappy_block(data)
        return
    at = len(_XERIAL_HEADER)
    while at < len(data):
        (size,) = _I32.unpack_from(data, at)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise ValueError(f"a block of {size} bytes where {len(data) - at} are left")
        yield _snappy_block(data[at : at + size])
        at += size


def _snappy_block(block: bytes) -> bytes:
    # snappy sets aside what the block claims, before anything is unpacked.
    claimed = _cramjam().snappy.decompress_raw_len(block)
    if claimed > BLOCK_BYTES_MAX:
        raise MessageTooLargeError(f"a snappy block of {claimed} bytes")
    return bytes(_cramjam().snappy.decompress_raw(block))


def _pack_snappy(chunks: Iterable[bytes], _level: int) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    for plain in _blocks(chunks, _XERIAL_BLOCK_BYTES):
        block = bytes(_cramjam().snappy.compress_raw(plain))
        yield _I32.pack(len(block))
        yield block


def _unpack_lz4(data: bytes) -> Iterator[bytes]:
    if len(data) < 7 or _LZ4_U32.unpack_from(data)[0] != _LZ4_MAGIC:
        raise ValueError("no LZ4 frame")
    flags, descriptor = data[4], data[5]
    if flags >> 6 != 1 or not flags & 0x20:
        raise ValueError("a version or a mode of LZ4 frames that Kafka does not use")
    block_checksum, content_size = bool(flags & 0x10), bool(flags & 0x08)
    largest = _LZ4_BLOCK_BYTES.get(descriptor >> 4 & 7)
    if largest is None:
        raise ValueError("a block size that does not exist")
    at = 7 + (8 if content_size else 0)
    space = bytearray(largest)
    while (word := _LZ4_U32.unpack_from(data, at)[0]) != 0:
        at += 4
        size = word & ~_LZ4_UNCOMPRESSED
        if size > len(data) - at:
            raise ValueError("it ends early")
        block = data[at : at + size]
        if word & _LZ4_UNCOMPRESSED:
            yield block
        else:
            written = _cramjam().lz4.decompress_block_into(block, space)
            yield bytes(memoryview(space)[:written])
        at += size + (4 if block_checksum else 0)


def _pack_lz4(chunks: Iterable[bytes], level: int) -> Iterator[bytes]:
    if level != DEFAULT_LEVELS[Codec.LZ4]:
        yield from _pack_lz4_tightly(chunks, level)
        return
    yield _LZ4_HEADER
    for plain in _blocks(chunks, _LZ4_BLOCK_BYTES[4]):
        block = bytes(_cramjam().lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            yield _LZ4_U32.pack(len(block))
            yield block
        else:
            yield _LZ4_U32.pack(len(plain) | _LZ4_UNCOMPRESSED)
            yield plain
    yield _LZ4_END


def _pack_lz4_tightly(chunks: Iterable[bytes], level: int) -> Iterator[bytes]:
    # A frame of independent blocks, as consumers in Java insist on.
    stream = _cramjam().lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    for chunk in chunks:
        stream.compress(chunk)
        yield bytes(stream.flush())
    yield bytes(stream.finish())


def _blocks(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of ``size``, but for the last."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk if rest else chunk
        whole = len(data) - len(data) % size
        for at in range(0, whole, size):
            yield data[at : at + size]
        rest = data[whole:]
    if rest:
        yield rest


def _unpack_zstd(data: bytes) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        while chunk := reader.read(CHUNK_BYTES):
            yield chunk


def _pack_none(chunks: Iterable[bytes], _level: int) -> Iterator[bytes]:
    yield from chunks


def _pack_gzip(chunks: Iterable[bytes], level: int) -> Iterator[bytes]:
    stream = zlib.compressobj(level, zlib.DEFLATED, 31)
    for chunk in chunks:
        yield stream.compress(chunk)
    yield stream.flush()


def _pack_zstd(chunks: Iterable[bytes], level: int) -> Iterator[bytes]:
    stream = zstandard.ZstdCompressor(level=level).compressobj()
    for chunk in chunks:
        yield stream.compress(chunk)
    yield stream.flush()


_PACKERS: Final = {
    Codec.NONE: _pack_none,
    Codec.GZIP: _pack_gzip,
    Codec.SNAPPY: _pack_snappy,
    Codec.LZ4: _pack_lz4,
    Codec.ZSTD: _pack_zstd,
}
_UNPACKERS: Final = {
    Codec.GZIP: _unpack_gzip,
    Codec.SNAPPY: _unpack_snappy,
    Codec.LZ4: _unpack_lz4,
    Codec.ZSTD: _unpack_zstd,
}
