"""Writes down what a real ZooKeeper 3.9.5 answers to four-letter words and shows as metrics.

The files are references for people and for ``test_metrics.py``, which compares their names, types and line shapes with
ours. Run again only when the version of ZooKeeper changes:

    python -m tests.compat.capture
"""

from __future__ import annotations

import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from tests.peers import Ensemble, RealZooKeeper, four_letter_word

HERE = Path(__file__).parent
WORDS_FOLDER = HERE / "zookeeper-3.9.5-4lw"
METRICS_FILE = HERE / "zookeeper-3.9.5-metrics.txt"
MNTR_FILE = HERE / "zookeeper-3.9.5-mntr.txt"

WORDS = ["ruok", "srvr", "stat", "mntr", "cons", "conf", "envi", "dump", "wchs", "wchc", "wchp", "isro", "crst", "srst"]
"""The words that reset come last, so that the others show counters."""

PROVIDER_NOTE = "metrics of ZooKeeper 3.9.5, rendered by zookeeper-prometheus-metrics 3.9.4 (Maven has no 3.9.5 of it)"


@contextmanager
def some_life(ensemble: Ensemble) -> Iterator[None]:
    """Nodes, ephemerals and watches, by one client at every server, so that no answer is empty."""
    clients = [KazooClient(f"127.0.0.1:{port}", timeout=20) for port in ensemble.client_ports]
    try:
        for number, client in enumerate(clients):
            client.start(timeout=120)
            base = f"/life-{number}"
            client.create(base, b"some data")
            client.create(f"{base}/ephemeral", b"", ephemeral=True)
            for _ in range(5):
                client.create(f"{base}/n-", b"x" * 100, sequence=True)
                client.set(base, b"more data")
            client.get(base, watch=lambda _event: None)
            client.get(f"{base}/ephemeral", watch=lambda _event: None)
            client.get_children(base, watch=lambda _event: None)
            client.exists(f"{base}/missing", watch=lambda _event: None)
            client.sync(base)
        yield
    finally:
        for client in clients:
            client.stop()
            client.close()


def metrics_of(ensemble: Ensemble, index: int) -> str:
    url = f"http://127.0.0.1:{ensemble.metrics_ports[index]}/metrics"
    with urllib.request.urlopen(url, timeout=120) as answer:
        content: str = answer.read().decode()
    return content


def roles(ensemble: Ensemble) -> dict[str, int]:
    """One server of each mode."""
    return {mode: index for index, mode in enumerate(ensemble.roles()) if mode is not None}


def words_of(ensemble: Ensemble, index: int) -> dict[str, str]:
    return {word: four_letter_word(ensemble.client_ports[index], word) for word in WORDS}


def _anonymous(answer: str, real: Ensemble) -> str:
    """Without what belongs to one machine: its folders, host name and Java."""
    lines = []
    for line in answer.splitlines():
        key = line.split("=", 1)[0]
        if key.startswith(("java.", "os.", "user.", "host.name")) or key in ("dataDir", "dataLogDir"):
            lines.append(f"{key}=...")
        else:
            lines.append(line.replace(str(real.home), "..."))
    return "\n".join(lines) + ("\n" if answer.endswith("\n") else "")


def main() -> None:
    WORDS_FOLDER.mkdir(exist_ok=True)
    metrics: dict[str, str] = {}
    monitor: dict[str, str] = {}
    for size, observers in ((1, 0), (3, 1)):
        with _real(size, observers=observers, metrics=True) as real, some_life(real):
            for mode, index in roles(real).items():
                metrics[mode] = metrics_of(real, index)
        # The default provider shows counters in mntr that Prometheus's does not, so the words have their own run.
        with _real(size, observers=observers, metrics=False) as real, some_life(real):
            for mode, index in roles(real).items():
                answers = words_of(real, index)
                monitor[mode] = answers["mntr"]
                for word, answer in answers.items():
                    (WORDS_FOLDER / f"{mode}-{word}.txt").write_text(_anonymous(answer, real))
    METRICS_FILE.write_text(_sections(metrics, PROVIDER_NOTE))
    MNTR_FILE.write_text(_sections(monitor, "mntr of ZooKeeper 3.9.5 with the default metrics provider"))


@contextmanager
def _real(size: int, *, observers: int, metrics: bool) -> Iterator[Ensemble]:
    with (
        tempfile.TemporaryDirectory() as folder,
        RealZooKeeper(size, Path(folder), observers=observers, metrics=metrics) as real,
    ):
        yield real


def _sections(texts: dict[str, str], note: str) -> str:
    return f"## {note}\n" + "".join(f"## {mode}\n{text}\n" for mode, text in texts.items())


if __name__ == "__main__":
    main()
