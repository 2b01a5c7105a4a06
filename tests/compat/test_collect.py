"""``ottla collect`` as users run it: sources that nobody here wrote, brokers that go away, and kill -9 for everyone."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.collect.batches import decode
from ottla.collect.spool import Reader, Spool
from tests.compat.clients.cluster import KINDS, Cluster
from tests.compat.page import run_page
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.processes import Process, free_ports, wait_until

pytestmark = pytest.mark.timeout(600)
WAIT_S = 120
Record = tuple[bytes | None, bytes | None, dict[str, bytes]]
"""Key, value and headers."""


class Collector:
    """One collector over all its lives, in a folder of its own."""

    def __init__(self, folder: Path, bootstrap: str, *arguments: str) -> None:
        # Tests that run in the background have Ctrl-C ignored, and so would their children.
        command = ["env", "--default-signal=INT", sys.executable, "-P", "-m", "ottla", "collect", *arguments]
        self.folder = folder
        self._process = Process(command, log=folder / "collector", cwd=folder, env={"OTTLA_BOOTSTRAP": bootstrap})
        self._lives = 0

    def start(self) -> dict[str, str]:
        """Where it listens."""
        self._lives += 1
        self._process.start()

        def ready() -> str | None:
            running = self._process.running  # before what it has said is read: it may end at once, all done
            told = re.findall(r"^collecting: (.*)$", self.told(), re.MULTILINE)
            assert running or len(told) == self._lives, self._process.tail()
            return told[-1] if len(told) == self._lives else None

        line = wait_until(ready, timeout_s=WAIT_S, what="it collects")
        return dict(word.split("=", 1) for word in line.split() if "=" in word)

    def told(self) -> str:
        return self._process.log.read_text()

    def kill(self) -> None:
        self._process.kill()

    def end(self, number: signal.Signals) -> int | None:
        self._process.signal(number)
        return self._process.wait(WAIT_S)

    def spool(self) -> Path:
        [folder] = (self.folder / "ottla-spool").iterdir()
        return folder


@pytest.fixture
def collector(tmp_path: Path, topic: str) -> Iterator[Callable[..., Collector]]:
    made: list[Collector] = []

    def make(bootstrap: str, *arguments: str) -> Collector:
        of_one = () if "--sources" in arguments else (topic,)
        made.append(Collector(tmp_path, bootstrap, *of_one, *arguments))
        return made[-1]

    yield make
    for each in made:
        each.kill()


def records(bootstrap: str, topic: str, is_complete: Callable[[list[Record]], bool]) -> list[Record]:
    """Everything in partition 0 from its beginning, once it is all there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wait_until(lambda: topic in admin.list_topics(timeout=WAIT_S).topics, timeout_s=WAIT_S, what="the topic is there")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Record] = []

    def complete() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is not None:
                continue  # a broker that is away for a moment; what does not come in the end is told below
            headers: Any = message.headers() or ()
            found.append((message.key(), message.value(), dict(headers)))
        return is_complete(found)

    try:
        wait_until(complete, timeout_s=WAIT_S, what="everything arrives")
    except TimeoutError as error:
        raise TimeoutError(f"{error}; {len(found)} records, the last is {found[-1:]}") from None
    finally:
        consumer.close()
    return found


def values(bootstrap: str, topic: str, wanted: set[bytes]) -> list[bytes | None]:
    """All values, once every one that is wanted is among them."""
    found = records(bootstrap, topic, lambda found: wanted <= {value for _, value, _ in found})
    return [value for _, value, _ in found]


def post(address: str, body: bytes) -> int:
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def append(file: Path, *lines: str) -> None:
    with file.open("a") as stream:
        stream.writelines(f"{line}\n" for line in lines)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.split()[0].lower()) for kind in KINDS])
def test_every_source_arrives(
    kind: str, clusters: Callable[[str], Cluster], topic: str, tmp_path: Path, collector: Callable[..., Collector]
) -> None:
    cluster = clusters(kind)
    cluster.create(topic)
    ports = ("--syslog-udp", "0", "--syslog-tcp", "0", "--http", "0")
    running = collector(cluster.bootstrap, "-f", "*.log", *ports, "--key", "id", "--fsync", "always", "--drain", "100")
    at = running.start()
    append(tmp_path / "a.log", "in a file", '{"id": 7}')
    udp, tcp = at["syslog-udp"].rpartition(":")[2], at["syslog-tcp"].rpartition(":")[2]
    for options in (("-P", udp, "-d"), ("-P", tcp, "-T", "--octet-count"), ("-P", tcp, "-T", "--rfc3164")):
        subprocess.run(
            ["logger", "-n", "127.0.0.1", *options, f"logged {' '.join(options[2:])}"], check=True, timeout=60
        )
    handler = logging.handlers.SysLogHandler(("127.0.0.1", int(tcp)), socktype=socket.SOCK_STREAM)
    handler.handle(logging.makeLogRecord({"msg": "by python"}))
    handler.close()
    assert post(at["http"] + "/events", b'[{"id": "a"}, {"id": "b"}]') == 204
    pixel = subprocess.run(
        ["curl", "-sS", "-A", "a browser", f"{at['http']}/pixel.gif?id=c"], capture_output=True, check=True, timeout=60
    )
    assert pixel.stdout.startswith(b"GIF89a")
    found = records(cluster.bootstrap, topic, lambda found: len(found) >= 9)
    by_source: dict[bytes, list[tuple[bytes | None, bytes | None]]] = {}
    for key, value, headers in found:
        assert headers["received"].isdigit()
        by_source.setdefault(headers["source"], []).append((key, value))
    assert by_source[b"file"] == [(None, b"in a file"), (b"7", b'{"id": 7}')]
    assert by_source[b"http"] == [(b"a", b'{"id": "a"}'), (b"b", b'{"id": "b"}'), (b"c", b'{"id": "c"}')]
    messages = [value or b"" for _, value in by_source[b"syslog"]]
    logged = {each.rpartition(b"logged ")[2] for each in messages if b"logged " in each}
    assert logged == {b"-d", b"-T --octet-count", b"-T --rfc3164"}
    assert [each for each in messages if each.endswith(b"by python")] == [b"<12>by python"]
    [browser] = [headers for key, _, headers in found if key == b"c"]
    assert (browser["user-agent"], browser["path"], browser["host"]) == (b"a browser", b"/pixel.gif", b"127.0.0.1")
    [file] = [headers for key, _, headers in found if key == b"7"]
    assert (file["file"], file["host"]) == (os.fsencode(tmp_path / "a.log"), socket.gethostname().encode())
    assert running.end(signal.SIGINT) == 130
    assert running.told().endswith("\n9 collected, 9 delivered\n")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaBrokers]:
    """A broker that is not running yet."""
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        made = OttlaBrokers(1, keepers.hosts, tmp_path / "brokers")
        yield made
        made.__exit__(None, None, None)


CREATES = "--allow-auto-topic-creation"


def test_nothing_that_was_taken_is_lost_while_brokers_are_away_and_everyone_is_killed(
    brokers: OttlaBrokers, topic: str, tmp_path: Path, collector: Callable[..., Collector]
) -> None:
    """Brokers that are not there yet, a collector that is killed, a broker that is killed: all of it arrives, in its order."""
    running = collector(brokers.bootstrap, "-f", "*.log*", "--http", "0", "--poll", "0.01", CREATES)
    file = tmp_path / "a.log"
    wanted: list[bytes] = []

    def log(number: int) -> None:
        append(file, f"line {number}")
        wanted.append(b"line %d" % number)

    def beacon(address: str, number: int) -> None:
        assert post(address, b'{"n": %d}' % number) == 204
        wanted.append(b'{"n": %d}' % number)

    address = running.start()["http"]
    for number in range(50):
        log(number)
        beacon(address, number)
        if number % 20 == 19:
            file.rename(tmp_path / f"a.log.{number}")
    running.kill()
    append(file, "unseen")
    wanted.append(b"unseen")
    shutil.copy(file, tmp_path / "a.log.copy")
    os.truncate(file, 0)
    address = running.start()["http"]
    brokers.start(0)
    for number in range(50, 150):
        log(number)
        beacon(address, number)
        if number == 80:
            brokers.kill(0)
        if number == 110:
            running.kill()
            address = running.start()["http"]
        if number == 120:
            brokers.start(0)
    found = values(brokers.bootstrap, topic, set(wanted))
    beacons = list(dict.fromkeys(each for each in found if each and each.startswith(b"{")))
    assert beacons == [each for each in wanted if each.startswith(b"{")]
    assert running.end(signal.SIGTERM) == 0
    assert "delivered" in running.told().splitlines()[-1]
    assert {each for each in found if each} == set(wanted)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kills_at_random_moments_lose_nothing(
    seed: int, brokers: OttlaBrokers, topic: str, tmp_path: Path, collector: Callable[..., Collector]
) -> None:
    """While lines are logged, logs rotated in both ways and beacons sent, collector and broker are killed again and again."""
    draw = random.Random(seed)
    running = collector(brokers.bootstrap, "-f", "*.log*", "--http", "0", "--poll", "0.01", CREATES)
    address = running.start()["http"]
    wanted: set[bytes] = set()
    is_up = False
    for number in range(1500):
        file = tmp_path / f"{draw.choice('ab')}.log"
        append(file, f"{file.name} {number}")
        wanted.add(b"%s %d" % (file.name.encode(), number))
        if number % 5 == 0:
            body = b'{"n": %d}' % number
            assert post(address, body) == 204
            wanted.add(body)
        match draw.randrange(60):
            case 0:
                running.kill()
                address = running.start()["http"]
            case 1:
                brokers.kill(0) if is_up else brokers.start(0)
                is_up = not is_up
            case 2:
                file.rename(tmp_path / f"{file.name}.{number}")
            case 3:
                shutil.copy(file, tmp_path / f"{file.name}.{number}")
                os.truncate(file, 0)
    if not is_up:
        brokers.start(0)
    assert set(values(brokers.bootstrap, topic, wanted)) == wanted


def test_a_full_spool_makes_sources_wait_and_beacons_come_back(
    brokers: OttlaBrokers, topic: str, tmp_path: Path, collector: Callable[..., Collector]
) -> None:
    file = tmp_path / "a.log"
    append(file, *(f"{number:0100d}" for number in range(20_000)))
    limits = ("--spool-bytes", "1000000")
    running = collector(brokers.bootstrap, "-f", "a.log", "--http", "0", *limits, CREATES)
    address = running.start()["http"]
    taken: list[bytes] = []

    def is_refused() -> bool:
        body = b'{"n": %d, "more": "%s"}' % (len(taken), b"x" * 20_000)
        status = post(address, body)
        if status == 204:
            taken.append(body)
        return status == 503

    wait_until(is_refused, timeout_s=WAIT_S, what="the spool is full")
    used = sum(path.stat().st_size for path in running.spool().glob("*.spool"))
    assert used <= 1_000_000
    brokers.start(0)
    wanted = {b"%0100d" % number for number in range(20_000)} | set(taken)
    assert set(values(brokers.bootstrap, topic, wanted)) == wanted
    wait_until(lambda: not is_refused(), timeout_s=WAIT_S, what="there is room again")
    assert running.end(signal.SIGTERM) == 0


def test_what_could_not_be_sent_stays_and_is_said(topic: str, tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    command = [
        sys.executable,
        "-P",
        "-m",
        "ottla",
        "collect",
        topic,
        "-b",
        nobody,
        "--drain",
        "0.1",
        "--interval",
        "0.1",
    ]
    for lives, is_told_to_end in ((1, False), (2, True)):
        with subprocess.Popen(
            ["env", "--default-signal=INT", *command],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(b"one\ntwo\n")
            process.stdin.flush()
            told = b""
            while is_told_to_end and not told.startswith(b"2 records"):
                told = process.stderr.readline()
                assert told, "it ended"
            if is_told_to_end:
                process.send_signal(signal.SIGINT)
            else:
                process.stdin.close()
            last = process.stderr.read().splitlines()[-1]
            assert process.wait(WAIT_S) == (130 if is_told_to_end else 1)
        assert re.fullmatch(rb"2 collected, 0 delivered, \d+ B stay in the spool until next time", last)
        spool = Spool(tmp_path / "ottla-spool" / topic, limit_bytes=1 << 20)
        kept = [record.value for _, batch in Reader(spool, 0) for record in decode(batch).records]
        spool.close()
        assert kept == [b"one", b"two"] * lives


def test_what_no_broker_takes_is_kept_and_can_be_sent_again(
    clusters: Callable[[str], Cluster], topic: str, tmp_path: Path, collector: Callable[..., Collector]
) -> None:
    cluster = clusters(KINDS[0])
    cluster.create(topic, config={"cleanup.policy": "compact"})
    append(tmp_path / "a.log", '{"id": 1}', "without a key", '{"id": 2}')
    running = collector(cluster.bootstrap, "-f", "a.log", "--once", "--key", "id")
    running.start()
    wait_until(lambda: "collected" in running.told(), timeout_s=WAIT_S, what="it ends")
    assert running.told().endswith("\n3 collected, 2 delivered, 1 rejected\n")
    [line] = (running.spool() / "rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["value"] == "without a key"
    again = [sys.executable, "-P", "-m", "ottla", "produce", topic, "-f", "jsonl", "-k", "given"]
    subprocess.run(
        [*again, "-i", running.spool() / "rejected.jsonl", "-b", cluster.bootstrap], check=True, timeout=WAIT_S
    )
    found = records(cluster.bootstrap, topic, lambda found: len(found) >= 3)
    assert [(key, value) for key, value, _ in found] == [
        (b"1", b'{"id": 1}'),
        (b"2", b'{"id": 2}'),
        (b"given", b"without a key"),
    ]


def test_what_cannot_be_is_said(
    clusters: Callable[[str], Cluster], topic: str, tmp_path: Path, collector: Callable[..., Collector]
) -> None:
    cluster = clusters(KINDS[0])

    def ends(*arguments: str, code: int) -> str:
        command = [sys.executable, "-P", "-m", "ottla", "collect", *arguments, "-b", cluster.bootstrap]
        done = subprocess.run(
            command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=WAIT_S, stdin=subprocess.DEVNULL
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    assert "no topic is called nowhere" in ends("nowhere", code=3)
    assert "other machines" in ends(topic, "--http", "0.0.0.0:0", code=2)
    assert "not of the form" in ends(topic, "--http", "web", code=2)
    cluster.create(topic)
    running = collector(cluster.bootstrap, "--http", str(free_ports(1)[0]))
    port = running.start()["http"].rpartition(":")[2]
    assert "another collector" in ends(topic, "-f", "x", code=1)
    assert "cannot listen" in ends(topic, "--http", port, code=1)


@pytest.mark.long
def test_every_source_has_its_topic_also_after_a_kill(
    clusters: Callable[[str], Cluster], topic: str, tmp_path: Path, collector: Callable[..., Collector]
) -> None:
    """The same file goes to two topics, each of which knows how far it is in it."""
    cluster = clusters(KINDS[0])
    names = [f"{topic}.{name}" for name in ("lines", "objects", "beacons")]
    for name in names:
        cluster.create(name)
    lines, objects, beacons = names
    (tmp_path / "shop.toml").write_text(
        f'[[source]]\ntopic = "{lines}"\nfiles = ["*.log"]\n'
        f'[[source]]\ntopic = "{objects}"\nfiles = ["a.log"]\nformat = "json"\n'
        f'[[source]]\ntopic = "{beacons}"\nhttp = "0"\nkey = "id"\n'
    )
    running = collector(cluster.bootstrap, "--sources", "shop.toml")
    at = running.start()
    append(tmp_path / "a.log", "one", "two")
    append(tmp_path / "b.log", "other")
    assert post(at["http"], b'{"id": 7}') == 204
    assert values(cluster.bootstrap, lines, {b"one", b"two", b"other"})
    running.kill()
    shutil.copy(tmp_path / "a.log", tmp_path / "a.log.1")
    os.truncate(tmp_path / "a.log", 0)
    append(tmp_path / "a.log", "three")
    running.start()
    assert set(values(cluster.bootstrap, lines, {b"three"})) == {b"one", b"two", b"other", b"three"}
    found = records(cluster.bootstrap, objects, lambda found: any(b"three" in (value or b"") for _, value, _ in found))
    assert {json.loads(value or b"")["message"] for _, value, _ in found} == {"one", "two", "three"}
    sent = records(cluster.bootstrap, beacons, bool)
    assert {(key, value) for key, value, _ in sent} == {(b"7", b'{"id": 7}')}
    assert running.end(signal.SIGTERM) == 0
    command = [sys.executable, "-P", "-m", "ottla", "collect"]
    for more, told in (((), "give a TOPIC"), (("--sources", "shop.toml", "--key", "id"), "--key is for one topic")):
        done = subprocess.run(
            [*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WAIT_S
        )
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_the_page_shows_what_the_commands_print(clusters: Callable[[str], Cluster], tmp_path: Path) -> None:
    ports = dict(zip(("8080", "5514"), map(str, free_ports(2)), strict=True))
    version = subprocess.run(["curl", "--version"], capture_output=True, check=True, text=True, timeout=300).stdout

    def here(text: str) -> str:
        return re.sub("8080|5514", lambda port: ports[port[0]], text).replace(
            "curl/7.88.1", f"curl/{version.split()[1]}"
        )

    environment = {"OTTLA_BOOTSTRAP": clusters(KINDS[0]).bootstrap}
    assert run_page("collect.md", environment, tmp_path, here=here, timeout_s=WAIT_S) == 4
