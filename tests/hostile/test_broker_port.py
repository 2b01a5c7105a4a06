"""Hostile input on the Kafka port: every case is answered or closed, and nobody else notices."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import zstandard
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.records import Codec, Record, build_batch
from ottla.records.batch import HEADER_BYTES, BatchHeader, read_header, stamped
from ottla.records.codecs import pack_stream
from tests.hostile.kafka import (
    API_VERSIONS,
    CORRUPT_MESSAGE,
    CREATE_TOPICS,
    DELETE_RECORDS,
    FETCH,
    FIND_COORDINATOR,
    INVALID_RECORD,
    LIST_OFFSETS,
    MESSAGE_TOO_LARGE,
    METADATA,
    NONE,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    ClosedError,
    Connection,
    UndisturbedBroker,
    header,
    i16,
    i32,
    i64,
    produce,
    string,
    uvarint,
)
from tests.hostile.tls import shake_hands_in_vain
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers

REQUEST_BYTES_MAX = 104_857_600
PARALLEL = 16
GIANTS = 64
GIANT_BYTES = 90_000_000
BUDGET_BYTES = 16 << 20
LARGE_BYTES = 15 << 20
MB = 1 << 20
NOW_MS = 1_700_000_000_000
UNSUPPORTED_COMPRESSION_TYPE = 76


@pytest.fixture(scope="module")
def keepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaKeepers]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("keeper")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(keepers: OttlaKeepers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBrokers]:
    with OttlaBrokers(1, f"{keepers.hosts}/hostile", tmp_path_factory.mktemp("broker")) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        made = admin.create_topics([NewTopic("t", 1, 1)])
        made["t"].result(timeout=120)
        # What every later request needs is there before anybody measures.
        with Connection(running.ports[0]) as known:
            assert known.produce("t", batch()) == NONE
        yield running


def batch(count: int = 3) -> bytes:
    return build_batch([Record(b"k", b"v%d" % i, NOW_MS + i) for i in range(count)])


def known(broker: OttlaBrokers) -> Connection:
    connection = Connection(broker.ports[0])
    connection.api_versions()
    return connection


def framed(body: bytes) -> bytes:
    return i32(len(body)) + body


FIRST_BYTES: dict[str, bytes] = {
    "length -1": i32(-1),
    "length of the smallest number": i32(-(2**31)),
    "length of the largest number": i32(2**31 - 1) + bytes(100),
    "length just beyond socket.request.max.bytes": i32(REQUEST_BYTES_MAX + 1) + bytes(5000),
    "length 0": i32(0),
    "length 1": i32(1) + b"\0",
    "an API that does not exist": framed(header(9999, 0)),
    "an API of negative key": framed(header(-1, 0)),
    "a version that does not exist": framed(header(METADATA, 999)),
    "Produce of old": framed(header(PRODUCE, 2) + i16(1) + i32(1000) + i32(0)),
    "a client id longer than the frame": i32(12) + i16(METADATA) + i16(1) + i32(1) + i16(30_000) + b"xx",
    "a client id of negative length": i32(12) + i16(METADATA) + i16(1) + i32(1) + i16(-5) + b"xx",
    "a request cut short": framed(header(CREATE_TOPICS, 2) + bytes(3)),
    "a request of another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60),
}


def test_what_is_no_request_is_closed(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker):
        for name, data in FIRST_BYTES.items():
            check_closed(broker, name, data)


def check_closed(broker: OttlaBrokers, name: str, data: bytes) -> None:
    connections = [Connection(broker.ports[0], timeout_s=60) for _ in range(PARALLEL)]
    for connection in connections:
        with suppress(ClosedError):
            connection.send(data)
    assert [connection.closes() for connection in connections] == [True] * PARALLEL, name


def test_tls_on_the_plain_port_is_closed(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker):
        shake_hands_in_vain(broker.ports[0], times=PARALLEL)


def test_a_version_from_the_future_is_told_what_there_is(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker), Connection(broker.ports[0]) as connection:
        answer = connection.call(header(API_VERSIONS, 999) + b"\0" + b"\xff" * 50)
        assert answer[4:6] == i16(35)
        connection.api_versions()


IMPOSSIBLE: dict[str, bytes] = {
    "two billion topics": header(METADATA, 1) + i32(2**31 - 1) + bytes(1000),
    "ten million topics": header(METADATA, 1) + i32(10_000_000) + bytes(1000),
    "minus two topics": header(METADATA, 1) + i32(-2),
    "a topic longer than the frame": header(METADATA, 1) + i32(1) + i16(32_000) + b"t",
    "a topic that is null": header(METADATA, 1) + i32(1) + i16(-1),
    "ten million partitions": header(LIST_OFFSETS, 1) + i32(-1) + i32(1) + string("t") + i32(10_000_000) + bytes(99),
    "records longer than the frame": produce("t", b"x", count=2**31 - 1),
    "twenty million tagged fields": header(METADATA, 12) + uvarint(20_000_000) + b"\x00\x00" * 3_000_000,
    "three million tagged fields": header(METADATA, 12) + uvarint(3_000_000) + b"\x00\x00" * 3_000_000,
    "a million partitions to fetch": header(FETCH, 4)
    + (i32(-1) + i32(0) + i32(1) + i32(MB) + b"\0" + i32(1) + string("t") + i32(1_000_000))
    + (i32(0) + i64(0) + i32(1)) * 1_000_000,
    "a million topics": header(METADATA, 1) + i32(1_000_000) + (i16(1) + b"x") * 1_000_000,
    "a number of six bytes": header(METADATA, 12) + b"\x00" + b"\xff" * 6,
    "length 0 where none may be null": header(API_VERSIONS, 3) + b"\x00" + b"\x00\x00\x00",
}


def test_requests_with_impossible_counts_are_closed(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker):
        for name, body in IMPOSSIBLE.items():
            check_closed(broker, name, framed(body))


def numbered(count: int, rest: bytes) -> bytes:
    """So many partitions of a topic that nobody has."""
    return string("x") + i32(count) + b"".join(i32(number) + rest for number in range(count))


def alone(count: int, rest: bytes) -> bytes:
    """So many topics that nobody has, with a partition each."""
    return i32(count) + b"".join(string(f"{number:x}") + i32(1) + i32(0) + rest for number in range(count))


COMMITTED = header(OFFSET_COMMIT, 7) + string("g") + i32(-1) + string("") + i16(-1)
TOLD = header(OFFSET_FETCH, 5) + string("g")
SENT = header(PRODUCE, 7) + i16(-1) + i16(1) + i32(1000)
OFFSET = i64(0) + i32(-1) + i16(-1)

NAMING_MANY: dict[str, Callable[[], bytes]] = {
    "produce": lambda: SENT + i32(1) + numbered(65_000, i32(0)),
    "produce of nothing at all": lambda: SENT + i32(1) + numbered(65_000, i32(-1)),
    "produce to as many topics": lambda: SENT + alone(45_000, i32(0)),
    "list offsets": lambda: header(LIST_OFFSETS, 1) + i32(-1) + i32(1) + numbered(65_000, i64(-1)),
    "epochs": lambda: header(OFFSET_FOR_LEADER_EPOCH, 2) + i32(1) + numbered(65_000, i32(-1) + i32(0)),
    "delete records": lambda: header(DELETE_RECORDS, 0) + i32(1) + numbered(65_000, i64(0)) + i32(1000),
    "commit": lambda: COMMITTED + i32(1) + numbered(55_000, OFFSET),
    "commit for as many topics": lambda: COMMITTED + alone(30_000, OFFSET),
    "offsets": lambda: TOLD + i32(1) + numbered(99_000, b""),
}


@pytest.fixture(scope="module")
def coordinator(broker: OttlaBrokers) -> OttlaBrokers:
    """The broker, once it has a place for the offsets of groups."""
    with known(broker) as connection:
        wait_until(
            lambda: (
                connection.call(header(OFFSET_FETCH, 2) + string("g") + i32(-1))[-2:] == i16(NONE)
                if connection.call(header(FIND_COORDINATOR, 0) + string("g"))[4:6] == i16(NONE)
                else False
            ),
            timeout_s=60,
            what="the group has a coordinator",
        )
    return broker


@pytest.mark.parametrize("name", NAMING_MANY)
def test_requests_that_name_very_many_keep_nobody_waiting(coordinator: OttlaBrokers, name: str) -> None:
    """Nobody waits for longer than a request of a megabyte takes to be read, or its answer to be written."""
    body = NAMING_MANY[name]()
    assert len(body) <= MB
    with (
        # Read, answered and written at a time, it was 0.2 to 0.6 s; to read and to write alone it is up to 0.1 s, as seen here.
        UndisturbedBroker(coordinator, memory_max=128 * MB, latency_max_s=0.2),
        known(coordinator) as connection,
    ):
        for _ in range(3):
            assert len(connection.call(body)) > 100_000


def of(count: int, size: int) -> bytes:
    """A topic with so many partitions, all of ``size`` bytes."""
    return i32(1) + string("x") + i32(count) + (i32(0) + i32(size)) * count


NAMING_TOO_MANY: dict[str, Callable[[], bytes]] = {
    "produce": lambda: SENT + of(2_000_000, 0),
    "produce of nothing at all": lambda: SENT + of(2_000_000, -1),
    "produce to as many topics": lambda: SENT + i32(2_000_000) + (string("") + i32(0)) * 2_000_000,
    "produce of old": lambda: header(PRODUCE, 2) + i16(1) + i32(1000) + of(2_000_000, 0),
    "delete records": lambda: header(DELETE_RECORDS, 0) + i32(1) + numbered(200_000, i64(0)) + i32(1000),
    "commit": lambda: COMMITTED + i32(1) + numbered(200_000, OFFSET),
    "offsets": lambda: TOLD + i32(1) + numbered(200_000, b""),
}


@pytest.mark.parametrize("name", NAMING_TOO_MANY)
def test_requests_that_name_more_than_anybody_has_are_closed(broker: OttlaBrokers, name: str) -> None:
    with UndisturbedBroker(broker, memory_max=64 * MB), known(broker) as connection:
        with suppress(ClosedError):
            connection.send_frame(NAMING_TOO_MANY[name]())
        assert connection.closes()


def test_names_that_are_no_utf8_and_topics_named_twice_are_answered(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker):
        for names in ([b"\xff\xfe\xfd"], [b"../../x"], [b"a\0b"], [b"t", b"t"], [b"n" * 30_000], [b""]):
            with known(broker) as connection:
                body = b"".join(i16(len(name)) + name for name in names)
                answer = connection.call(header(METADATA, 1) + i32(len(names)) + body)
                assert len(answer) > 8
            with known(broker) as connection:
                topics = b"".join(i16(len(name)) + name + i32(1) + i16(1) + i32(0) + i32(0) for name in names)
                with suppress(ClosedError):
                    assert len(connection.call(header(CREATE_TOPICS, 2) + i32(len(names)) + topics + i32(1000) + b"\1"))
    made = {path.name.rpartition("-")[0] for path in broker.data().iterdir() if path.is_dir()}
    assert made - {"__consumer_offsets"} == {"t"}


def changed(change: Callable[[BatchHeader], BatchHeader], data: bytes | None = None) -> bytes:
    """A batch with another header, whose checksum is right all the same."""
    data = batch() if data is None else data
    body = data[HEADER_BYTES:]
    return stamped(change(read_header(data)), body).pack() + body


def torn(codec: Codec) -> bytes:
    """Compressed records that end in the middle."""
    data = build_batch([Record(b"k", bytes(5000), NOW_MS)] * 50, codec=codec)
    body = data[HEADER_BYTES:-20]
    return stamped(read_header(data), body).pack() + body


WRONG_BATCHES: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "nothing": (b"", (INVALID_RECORD,)),
    "a checksum that is wrong": (batch()[:-1] + b"\x01", (CORRUPT_MESSAGE,)),
    "a length that is too large": (batch()[:8] + i32(10_000) + batch()[12:], (INVALID_RECORD,)),
    "a length that is too small": (batch()[:8] + i32(10) + batch()[12:], (CORRUPT_MESSAGE,)),
    "a negative length": (batch()[:8] + i32(-1) + batch()[12:], (CORRUPT_MESSAGE,)),
    "an offset delta that does not fit": (changed(lambda h: h.replace(last_offset_delta=7)), (INVALID_RECORD,)),
    "two billion records": (
        changed(lambda h: h.replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2)),
        (INVALID_RECORD,),
    ),
    "minus one record": (changed(lambda h: h.replace(record_count=-1, last_offset_delta=-2)), (INVALID_RECORD,)),
    "control records": (changed(lambda h: h.replace(attributes=0x20)), (INVALID_RECORD,)),
    "a producer id without a sequence": (
        changed(lambda h: h.replace(producer_id=5, producer_epoch=-1)),
        (INVALID_RECORD,),
    ),
    "magic 0": (struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, -1), (INVALID_RECORD,)),
    "magic 9": (batch()[:16] + b"\x09" + batch()[17:], (CORRUPT_MESSAGE,)),
    "a codec that does not exist": (changed(lambda h: h.replace(attributes=6)), (UNSUPPORTED_COMPRESSION_TYPE,)),
    "another codec than it says": (changed(lambda h: h.replace(attributes=3)), (CORRUPT_MESSAGE,)),
    "two batches": (batch() * 2, (INVALID_RECORD,)),
    "more than message.max.bytes": (build_batch([Record(b"k", bytes(2 * MB), NOW_MS)]), (MESSAGE_TOO_LARGE,)),
    **{f"{codec.name} that ends early": (torn(codec), (CORRUPT_MESSAGE, INVALID_RECORD)) for codec in list(Codec)[1:]},
    "a snappy block that claims 4 GB": (
        changed(lambda h: h.replace(attributes=2), batch()[:HEADER_BYTES] + b"\xff\xff\xff\xff\x0f" + bytes(50)),
        (MESSAGE_TOO_LARGE,),
    ),
}


def test_batches_that_are_wrong_are_refused_by_name(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker), known(broker) as connection:
        for name, (data, code) in WRONG_BATCHES.items():
            assert connection.produce("t", data) in code, name
            assert connection.produce("t", batch()) == NONE, name
            with Connection(broker.ports[0], timeout_s=60) as other:
                other.send_frame(produce("t", data, acks=0))
                assert other.closes(), name


def bomb(codec: Codec) -> bytes:
    """One record of zeros that unpacks to 300 MB, or as much of it as a batch of 1 MB can hold."""
    size = 300 * MB
    room = 1_000_000
    start = b"\x00\x00\x00" + b"\x01"  # attributes, timestamp delta, offset delta, no key
    value = size - 100
    record = start + zigzag(value)
    prefix = zigzag(len(record) + value + 1) + record

    def chunks() -> Iterator[bytes]:
        yield prefix
        for _ in range(value // MB):
            yield bytes(MB)

    parts, total = [], 0
    for part in pack_stream(codec, chunks()):
        if total + len(part) > room:
            break
        parts.append(part)
        total += len(part)
    body = b"".join(parts)
    head = read_header(build_batch([Record(None, b"", NOW_MS)])).replace(attributes=codec)
    return stamped(head, body).pack() + body


def zigzag(value: int) -> bytes:
    return uvarint(value << 1)


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_a_bomb_is_refused_while_others_are_served(broker: OttlaBrokers, codec: Codec) -> None:
    """Where 1 MB cannot hold more than 256 MiB (snappy, LZ4), it ends early instead."""
    data = bomb(codec)
    assert len(data) <= MB
    with UndisturbedBroker(broker), ExitStack() as stack:
        connections = [stack.enter_context(known(broker)) for _ in range(2)]
        for connection in connections:
            connection.send_frame(produce("t", data, acks=-1))
            # What follows on the same connection must not overtake.
            connection.send_frame(produce("t", batch(), acks=-1))
        expected = MESSAGE_TOO_LARGE if codec in (Codec.GZIP, Codec.ZSTD) else None
        for connection in connections:
            code = int.from_bytes(connection.receive()[19:21], "big", signed=True)
            assert code == expected if expected else code in (MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD)
            assert connection.receive()[19:21] == i16(NONE)


def test_a_large_batch_that_is_right_is_taken(broker: OttlaBrokers) -> None:
    data = build_batch([Record(b"k", bytes(MB), NOW_MS)] * 40, codec=Codec.ZSTD)
    with UndisturbedBroker(broker), known(broker) as connection:
        assert connection.produce("t", data) == NONE
        connection.send_frame(produce("t", data, acks=0))
        assert connection.produce("t", batch()) == NONE


def test_zstd_with_a_window_beyond_reason_is_refused(broker: OttlaBrokers) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = stream.compress(bytes(MB)) + stream.flush()
    data = stamped(read_header(batch()).replace(attributes=Codec.ZSTD), body).pack() + body
    with UndisturbedBroker(broker), known(broker) as connection:
        assert connection.produce("t", data) in (CORRUPT_MESSAGE, INVALID_RECORD)


def test_giants_that_are_declared_by_strangers_cost_nothing(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker), ExitStack() as stack:
        connections = [stack.enter_context(Connection(broker.ports[0])) for _ in range(GIANTS)]
        for connection in connections:
            with suppress(ClosedError):
                connection.send(i32(GIANT_BYTES) + header(PRODUCE, 3))
        for connection in connections:
            assert connection.closes()


def test_giants_that_are_declared_by_clients_cost_what_they_sent(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker), ExitStack() as stack:
        connections = [stack.enter_context(known(broker)) for _ in range(GIANTS)]
        for connection in connections:
            connection.send(i32(GIANT_BYTES) + header(PRODUCE, 3))
        assert stack.enter_context(known(broker)).produce("t", batch()) == NONE


def test_giants_that_are_sent_share_a_budget(keepers: OttlaKeepers, tmp_path: Path) -> None:
    """64 clients send all but the last bytes of 15 MB: 1 GB, of which the broker holds its budget and one frame."""
    settings = dict.fromkeys(("queued.max.request.bytes", "socket.request.max.bytes"), str(BUDGET_BYTES))
    with (
        OttlaBrokers(1, f"{keepers.hosts}/giants", tmp_path, settings=settings) as own,
        # One of them may finish its 15 MB, which takes that much once to hold and once to put together.
        UndisturbedBroker(own, memory_max=BUDGET_BYTES + 2 * LARGE_BYTES),
        ExitStack() as stack,
    ):
        before = own.brokers[0].resident_bytes()
        giants = [stack.enter_context(known(own)) for _ in range(GIANTS)]
        block = bytes(4 * MB)
        left = dict.fromkeys(giants, LARGE_BYTES - 100)
        for giant in giants:
            giant.socket.setblocking(False)
            with suppress(BlockingIOError):
                giant.socket.send(i32(LARGE_BYTES) + header(PRODUCE, 3))
        peak = 0
        ends = time.monotonic() + 6
        while time.monotonic() < ends:
            for giant in list(left):
                try:
                    left[giant] -= giant.socket.send(block[: left[giant]])
                except BlockingIOError:
                    continue
                except (BrokenPipeError, ConnectionResetError):
                    del left[giant]
            peak = max(peak, own.brokers[0].resident_bytes() - before)
        assert peak < BUDGET_BYTES + 2 * LARGE_BYTES, f"{peak / 1e6:.0f} MB"
        # An ordinary request, beyond what counts as small, passes them all.
        with known(own) as ordinary:
            large = build_batch([Record(b"k", bytes(900_000), NOW_MS)])
            assert len(ordinary.call(produce("t", large))) > 8


def test_a_frame_that_comes_byte_by_byte_keeps_nobody_waiting(broker: OttlaBrokers) -> None:
    frame = i32(len(header(API_VERSIONS, 0))) + header(API_VERSIONS, 0)
    with UndisturbedBroker(broker), ExitStack() as stack:
        slow = [stack.enter_context(Connection(broker.ports[0])) for _ in range(200)]
        for byte in frame:
            for connection in slow:
                connection.send(bytes([byte]))
        for connection in slow:
            assert connection.receive()[4:6] == i16(NONE)


def test_answers_that_nobody_reads_are_not_piled_up(broker: OttlaBrokers) -> None:
    one = header(API_VERSIONS, 0)
    with UndisturbedBroker(broker), known(broker) as connection:
        connection.socket.settimeout(2.0)
        # 100,000 answers would be some 20 MB for each of these; the broker stops reading long before.
        with suppress(TimeoutError, ClosedError):
            for _ in range(100):
                connection.send((i32(len(one)) + one) * 10_000)


def test_fetches_that_wait_are_not_piled_up(broker: OttlaBrokers) -> None:
    partition = i32(0) + i64(1_000_000) + i32(MB)
    fetch = header(FETCH, 4) + i32(-1) + i32(600_000) + i32(1) + i32(MB) + b"\0" + i32(1) + string("t") + i32(1)
    with UndisturbedBroker(broker), known(broker) as connection:
        connection.socket.settimeout(2.0)
        with suppress(TimeoutError, ClosedError):
            for _ in range(100):
                connection.send((i32(len(fetch + partition)) + fetch + partition) * 1000)


def test_two_thousand_connections_come_and_go(broker: OttlaBrokers) -> None:
    with UndisturbedBroker(broker):
        for number in range(2000):
            connection = socket.create_connection(("127.0.0.1", broker.ports[0]), timeout=120)
            if number % 3 == 0:
                connection.sendall(i32(44))
            if number % 5 == 0:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


def test_one_address_gets_no_more_than_its_share_of_connections(keepers: OttlaKeepers, tmp_path: Path) -> None:
    settings = {"max.connections.per.ip": "20"}
    with (
        OttlaBrokers(1, f"{keepers.hosts}/share", tmp_path, settings=settings) as own,
        UndisturbedBroker(own),
        ExitStack() as stack,
    ):
        kept = refused = 0
        for _ in range(60):
            connection = stack.enter_context(Connection(own.ports[0]))
            try:
                connection.api_versions()
                kept += 1
            except ClosedError:
                refused += 1
        assert (kept, refused) == (19, 41), "the one that does nothing wrong has the twentieth"


def test_without_descriptors_those_who_are_there_are_served(keepers: OttlaKeepers, tmp_path: Path) -> None:
    with OttlaBrokers(1, f"{keepers.hosts}/descriptors", tmp_path) as own, UndisturbedBroker(own):
        pid = own.brokers[0].pid
        files = own.brokers[0].open_files()
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 30, hard))
        with known(own) as there, ExitStack() as stack:
            for _ in range(300):
                with suppress(OSError):
                    stack.enter_context(Connection(own.ports[0], timeout_s=0.2))
            for _ in range(50):
                there.api_versions()
            assert own.brokers[0].running
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        with known(own) as again:
            again.api_versions()


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_idle_connections_are_held(keepers: OttlaKeepers, tmp_path: Path, count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 2000), hard))
    try:
        with (
            OttlaBrokers(1, f"{keepers.hosts}/idle{count}", tmp_path) as own,
            UndisturbedBroker(own, memory_max=150 * MB),
            ExitStack() as stack,
        ):
            connections = [stack.enter_context(Connection(own.ports[0])) for _ in range(count)]
            for connection in connections:
                connection.api_versions()
            grown = own.brokers[0].resident_bytes()
            print(f"{count} idle connections: {grown / 1e6:.0f} MB resident")
            assert grown < 150_000_000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
