"""Three brokers and three keepers on this machine: records in and out, a lock, a watch, and two leaders killed with -9.

Then the data pipeline on Spark, live, with another broker killed half-way, and what it found beside what is true.

    make run            stays up until Ctrl-C
    make run ONCE=1     ends by itself

The clients are confluent-kafka and kazoo, ordinary clients of Kafka and ZooKeeper that know nothing of Ottla.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import WatchedEvent
from rich.console import Console
from rich.table import Table

from ottla.cli.pipelinedemo import Demo
from ottla.cli.processes import mode
from ottla.pipeline.session import JavaError, find_java

TOPIC = "page-views"
RECORDS = 200_000
EAGER = {
    "linger.ms": 5,
    "batch.size": 1 << 18,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""For a producer that looks for the new leader without delay."""
LOAD_S = 1.0
HEAL_S = 1.5
FAST_RETRY = {"max_tries": -1, "delay": 0.02, "backoff": 1, "max_jitter": 0.1, "max_delay": 0.1}
console = Console(highlight=False)


class Cluster:
    """Three brokers and three keepers, started and stopped by the command line as a user would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.hosts = ""
        self.bootstrap = ""

    def ottla(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "ottla", *arguments, "--dir", os.fspath(self._folder)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def start(self) -> float:
        begin = time.monotonic()
        ready = self.ottla("up", "--brokers", "3", "--port", "0", "--keeper-port", "0", "--detach")
        told = dict(word.split("=", 1) for word in ready.split()[1:])
        self.bootstrap, self.hosts = told["bootstrap"], told["keeper"]
        return time.monotonic() - begin

    def processes(self, role: str) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = json.loads(self.ottla("status", "--json"))["processes"]
        return [process for process in processes if process["role"] == role]

    def keepers(self) -> list[dict[str, Any]]:
        """The keepers that run, each with its mode."""
        keepers = self.processes("keeper")
        for keeper in keepers:
            host, port = keeper["address"].split(":")
            keeper["mode"] = mode(host, int(port)) or "does not serve"
        return keepers

    def leader(self) -> dict[str, Any]:
        while True:
            for keeper in self.keepers():
                if keeper["mode"] == "leader":
                    return keeper
            time.sleep(0.02)


@contextmanager
def client(cluster: Cluster) -> Iterator[KazooClient]:
    session = KazooClient(hosts=cluster.hosts, timeout=10, connection_retry=dict(FAST_RETRY))
    session.start()
    try:
        yield session
    finally:
        session.stop()
        session.close()


def say(text: str) -> None:
    console.print(f"  {text}")


def show(cluster: Cluster) -> None:
    table = Table("keeper", "address", "mode", "pid")
    for keeper in cluster.keepers():
        table.add_row(str(keeper["id"]), keeper["address"], keeper["mode"], str(keeper["pid"]))
    console.print(table)


def make_topic(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[TOPIC].result(30)


def leading_broker(cluster: Cluster) -> dict[str, Any]:
    """Who leads, of those that run; after the loss of one, as soon as there is another."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    while True:
        leader = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader
        for broker in cluster.processes("broker"):
            if broker["id"] == leader:
                return broker
        time.sleep(0.05)


class Views:
    """Page views on their way into the log; which were acknowledged, and when."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent = 0
        self.times: list[float] = []
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **EAGER})

    def send(self, count: int) -> None:
        for _ in range(count):
            view = b'{"visitor": %d, "page": "/articles/%d"}' % (self.sent % 1009, self.sent)
            while True:
                try:
                    self._producer.produce(TOPIC, view, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._producer.poll(0.01)
            self.sent += 1
            self._producer.poll(0)

    def wait(self) -> None:
        self._producer.flush(60)

    def longest_pause_s(self) -> float:
        return max(after - before for before, after in zip(self.times, self.times[1:], strict=False))

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.times.append(time.monotonic())


def read_records(cluster: Cluster, count: int) -> bool:
    """Whether the first ``count`` page views are all there, in their order."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "demo", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    begin = time.monotonic()
    found = 0
    in_order = True
    while found < count and time.monotonic() < begin + 60:
        for message in consumer.consume(10_000, timeout=1.0):
            in_order = in_order and (message.value() or b"").endswith(b'"/articles/%d"}' % found)
            found += 1
    took = time.monotonic() - begin
    consumer.close()
    say(f"{found:,} page views out: {found / took:,.0f} a second{'' if in_order else ', out of order'}")
    return found == count and in_order


def send_records(cluster: Cluster) -> bool:
    console.rule("Records, on three brokers")
    make_topic(cluster)
    views = Views(cluster)
    begin = time.monotonic()
    views.send(RECORDS)
    views.wait()
    took = time.monotonic() - begin
    say(f"{len(views.times):,} page views in: {len(views.times) / took:,.0f} a second, each on three brokers")
    whole = read_records(cluster, len(views.times))
    begin_s = time.monotonic()
    while time.monotonic() < begin_s + LOAD_S:
        views.send(100)
        time.sleep(0.01)
    leader = leading_broker(cluster)
    os.kill(leader["pid"], signal.SIGKILL)
    while time.monotonic() < begin_s + LOAD_S + HEAL_S:
        views.send(100)
        time.sleep(0.01)
    views.wait()
    say(
        f"under load, broker {leader['id']}, which leads, is killed with -9; broker {leading_broker(cluster)['id']} goes on"
    )
    say(f"the producer's longest pause was {1000 * views.longest_pause_s():.0f} ms")
    cluster.ottla("restart", "broker", str(leader["id"]))
    return read_records(cluster, views.sent) and whole and len(views.times) == views.sent


def hand_over_a_lock(cluster: Cluster) -> None:
    console.rule("A lock")
    with client(cluster) as ada, client(cluster) as ben:
        first, second = ada.Lock("/demo/lock", "ada"), ben.Lock("/demo/lock", "ben")
        first.acquire()
        say(f"ada holds the lock; in line: {', '.join(first.contenders())}")
        taken: queue.Queue[float] = queue.Queue()

        def take() -> None:
            second.acquire()
            taken.put(time.monotonic())

        waiting = threading.Thread(target=take)
        waiting.start()
        while len(first.contenders()) < 2:
            time.sleep(0.005)
        say(f"ben waits; in line: {', '.join(first.contenders())}")
        released = time.monotonic()
        first.release()
        say(f"ada lets go, and ben holds it {1000 * (taken.get(timeout=10) - released):.1f} ms later")
        waiting.join()
        second.release()


def fire_a_watch(cluster: Cluster) -> None:
    console.rule("A watch")
    with client(cluster) as watcher, client(cluster) as writer:
        writer.create("/demo/config", b"v1")
        watcher.sync("/demo/config")
        fired: queue.Queue[tuple[float, WatchedEvent]] = queue.Queue()
        value, _ = watcher.get("/demo/config", watch=lambda event: fired.put((time.monotonic(), event)))
        say(f"one client reads {value.decode()} and asks to be told of a change")
        changed = time.monotonic()
        writer.set("/demo/config", b"v2")
        when, event = fired.get(timeout=10)
        value, _ = watcher.get("/demo/config")
        say(
            f"another one writes v2: {event.type} arrives after {1000 * (when - changed):.1f} ms, and {value.decode()} is read"
        )


class Writer(threading.Thread):
    """Writes one node after the other, and notes which were acknowledged and when."""

    def __init__(self, session: KazooClient) -> None:
        super().__init__()
        self._session = session
        self._stopping = threading.Event()
        self.acknowledged: list[str] = []
        self.times: list[float] = []

    def run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            try:
                self.acknowledged.append(self._session.create(f"/demo/log/{number:08d}", b"x"))
                self.times.append(time.monotonic())
            except KazooException:
                pass  # nobody knows whether that one was written, so nobody counts on it
            number += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def longest_pause_s(self) -> float:
        return max(after - before for before, after in zip(self.times, self.times[1:], strict=False))


def lose_the_leader(cluster: Cluster) -> bool:
    console.rule("The loss of the leader")
    with client(cluster) as session:
        session.create("/demo/log", makepath=True)
        writer = Writer(session)
        writer.start()
        time.sleep(LOAD_S)
        leader = cluster.leader()
        os.kill(leader["pid"], signal.SIGKILL)
        killed_at = len(writer.acknowledged)
        say(f"a client writes; after {killed_at} writes keeper {leader['id']}, the leader, is killed with -9")
        successor = cluster.leader()
        time.sleep(HEAL_S)
        writer.stop()
        say(
            f"keeper {successor['id']} leads now; the client's longest pause was {1000 * writer.longest_pause_s():.0f} ms"
        )
        session.sync("/demo/log")
        found = set(session.get_children("/demo/log"))
        lost = [path for path in writer.acknowledged if path.rpartition("/")[2] not in found]
        say(f"{len(writer.acknowledged)} writes were acknowledged, {len(writer.acknowledged) - len(lost)} are there")
    return not lost and len(writer.acknowledged) > killed_at


def find_or_install_java() -> str | None:
    """None if there is a Java for Spark, in the end; else what is wrong."""
    try:
        find_java(os.environ)
    except JavaError:
        install = [os.fspath(Path(__file__).parent / "install-tools.sh"), "openjdk-17-jre-headless"]
        subprocess.run(install, check=False)
        try:
            find_java(os.environ)
        except JavaError as error:
            return str(error)
    return None


def run_the_pipeline(cluster: Cluster, folder: Path) -> bool:
    console.rule("The data pipeline, live on Spark")
    missing = find_or_install_java()
    if missing is not None:
        say(f"It is not shown here. {missing}")
        return True
    killed: list[str] = []

    def kill_a_broker() -> str:
        broker = leading_broker(cluster)
        os.kill(broker["pid"], signal.SIGKILL)
        killed.append(str(broker["id"]))
        return f"half-way, broker {broker['id']} is killed with -9"

    demo = Demo({"bootstrap.servers": cluster.bootstrap}, folder, console, disturb=kill_a_broker)
    right = demo.run()
    for number in killed:
        cluster.ottla("restart", "broker", number)
    report = Path("ottla-report.html").resolve()
    shutil.copyfile(demo.report, report)
    say(f"{'every number is right' if right else 'some numbers are wrong'}; the report with plots is {report}")
    return right


def parse_arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="end by itself")
    return parser.parse_args()


def main() -> int:
    """Run the demonstration; the exit code says whether everything held."""
    logging.disable(logging.CRITICAL)  # kazoo tells at length of the connection that we cut
    once = parse_arguments().once
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as folder:
        cluster = Cluster(Path(folder, "cluster"))
        try:
            took = cluster.start()
            console.print(f"Three brokers at {cluster.bootstrap} and three keepers serve after {took:.2f} s.")
            show(cluster)
            whole = send_records(cluster)
            hand_over_a_lock(cluster)
            fire_a_watch(cluster)
            whole = lose_the_leader(cluster) and whole
            show(cluster)
            whole = run_the_pipeline(cluster, Path(folder, "pipeline")) and whole
            verdict = "[bold green]Nothing was lost.[/]" if whole else "[bold red]Something was lost.[/]"
            console.print(verdict)
            if not once:
                console.print(f"The brokers still serve at [bold]{cluster.bootstrap}[/]. Ctrl-C ends everything.")
                signal.pause()
        except KeyboardInterrupt:
            console.print()
            whole = True
        except subprocess.CalledProcessError:
            return 1  # the command has said why
        finally:
            console.print(cluster.ottla("down").strip())
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
