"""Three keepers on this machine, and what they are good for: a lock, a watch, and the loss of the leader.

    make run            stays up until Ctrl-C
    make run ONCE=1     ends by itself

The clients are kazoo's, an ordinary ZooKeeper client that knows nothing of Ottla.
"""

from __future__ import annotations

import json
import logging
import os
import queue
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

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import WatchedEvent
from rich.console import Console
from rich.table import Table

from ottla.cli.processes import mode

LOAD_S = 1.0
HEAL_S = 1.5
FAST_RETRY = {"max_tries": -1, "delay": 0.02, "backoff": 1, "max_jitter": 0.1, "max_delay": 0.1}
console = Console(highlight=False)


class Cluster:
    """Three keepers, started and stopped by the command line as a user would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.hosts = ""

    def ottla(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "ottla", *arguments, "--dir", os.fspath(self._folder)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def start(self) -> float:
        begin = time.monotonic()
        ready = self.ottla("up", "--keepers", "3", "--keeper-port", "0", "--detach")
        self.hosts = next(word for word in ready.split() if word.startswith("keeper=")).removeprefix("keeper=")
        return time.monotonic() - begin

    def keepers(self) -> list[dict[str, Any]]:
        """The keepers that run, each with its mode."""
        processes: list[dict[str, Any]] = json.loads(self.ottla("status", "--json"))["processes"]
        for process in processes:
            host, port = process["address"].split(":")
            process["mode"] = mode(host, int(port)) or "does not serve"
        return processes

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


def main() -> int:
    """Run the demonstration; the exit code says whether everything held."""
    logging.disable(logging.CRITICAL)  # kazoo tells at length of the connection that we cut
    once = "--once" in sys.argv[1:]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as folder:
        cluster = Cluster(Path(folder, "cluster"))
        try:
            console.print(f"Three keepers serve after {cluster.start():.2f} s.")
            show(cluster)
            hand_over_a_lock(cluster)
            fire_a_watch(cluster)
            whole = lose_the_leader(cluster)
            show(cluster)
            verdict = "[bold green]Nothing was lost.[/]" if whole else "[bold red]Something was lost.[/]"
            console.print(verdict)
            if not once:
                console.print(f"Two keepers of three still serve at [bold]{cluster.hosts}[/]. Ctrl-C ends them.")
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
