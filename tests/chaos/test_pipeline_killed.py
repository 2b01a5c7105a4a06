"""The pipeline by its command, while what it stands on is killed with -9, and on a Spark cluster of processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.pipeline.traffic import KINDS_BY_TOPIC, Traffic, make_traffic
from ottla.pipeline.traffic.sending import Sender, make_topics
from ottla.pipeline.verdict import Finding, compare
from ottla.scan import manifest
from ottla.testing import Cluster
from tests.peers.processes import Process, free_ports, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
START_MS = 1_700_000_000_000
PATIENCE_S = 900
DEFINITION = """
[source]
topics = [{topics}]
[source.options]
maxOffsetsPerTrigger = {limit}
[serve]
trigger = "100ms"
compact_files = 3
[spark]
"spark.sql.shuffle.partitions" = 2
{spark}
"""


class Running:
    """``ottla pipeline run`` in a process group of its own, which is killed as a whole."""

    def __init__(self, folder: Path, bootstrap: str, *, limit: int, spark: str = "") -> None:
        topics = ", ".join(f'"{topic}"' for topic in KINDS_BY_TOPIC)
        (folder / "shop.toml").write_text(DEFINITION.format(topics=topics, limit=limit, spark=spark))
        self.data = folder / "shop-data"
        self._folder = folder
        self._command = [
            sys.executable,
            "-P",
            "-m",
            "ottla",
            "pipeline",
            "run",
            str(folder / "shop.toml"),
            "-b",
            bootstrap,
        ]
        self._process: Process | None = None

    def start(self, *more: str, env: dict[str, str] | None = None) -> Process:
        log = self._folder / "pipeline.log"
        self._process = Process([*self._command, *more], log=log, cwd=self._folder, env=env)
        self._process.start()
        return self._process

    def kill(self) -> None:
        if self._process is not None and self._process.running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(120)

    def finish(self, *more: str, env: dict[str, str] | None = None) -> None:
        """Run it until it ends by itself."""
        process = self.start(*more, env=env)
        assert process.wait(PATIENCE_S) == 0, process.tail(60)

    def committed(self) -> int:
        state = manifest.load(self.data) if self.data.exists() else None
        return -1 if state is None else int(state["batch"])

    def wait(self, what: str, probe: Callable[[], bool]) -> None:
        def going() -> bool:
            assert self._process is not None
            assert self._process.running, self._process.tail(60)
            return probe()

        wait_until(going, timeout_s=PATIENCE_S, what=what, interval_s=0.01)

    def wait_behind(self, batch: int) -> None:
        self.wait(f"batch {batch + 1} counts", lambda: self.committed() > batch)

    def wait_amid(self) -> None:
        """Until a batch has written something that does not count yet."""

        def amid() -> bool:
            attempts = [path.name.partition("-")[0] for path in (self.data / "events").glob("0*-*")]
            return any(int(name) > self.committed() for name in attempts)

        self.wait("a batch is under way", amid)


def wrong(data: Path, traffic: Traffic) -> list[Finding]:
    return [finding for finding in compare(data, traffic.truth) if not finding.is_right]


def send(settings: dict[str, str], traffic: Traffic, part: slice) -> None:
    sender = Sender(settings)
    sender.send(traffic.arrivals[part])
    sender.flush()


def test_every_record_counts_once_when_spark_and_brokers_are_killed(tmp_path: Path) -> None:
    traffic = make_traffic(23, start_ms=START_MS, minutes=90, events=3000)
    third = len(traffic.arrivals) // 3
    with Cluster(brokers=3) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap}
        make_topics(settings, partitions=2, replicas=3)
        running = Running(tmp_path, cluster.bootstrap, limit=400)
        try:
            send(settings, traffic, slice(third))
            running.start("--stream")
            running.wait_behind(-1)
            running.wait_amid()
            running.kill()
            cluster.kill(2)
            send(settings, traffic, slice(third, 2 * third))
            running.start("--stream")
            running.wait_behind(running.committed())
            cluster.restart(2)
            cluster.kill(3)
            running.wait_amid()
            running.kill()
            send(settings, traffic, slice(2 * third, None))
            running.finish("--stream", "--available-now")
        finally:
            running.kill()
    assert wrong(running.data, traffic) == []


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each."""
    spark_class = str(Path(sys.executable).parent / "spark-class")
    [port] = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    env = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "300m"}
    deploy = "org.apache.spark.deploy"
    master = [spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = [spark_class, f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
    processes = [Process(master, log=folder / "master.log", cwd=folder, env=env)]
    for number in (1, 2):
        command = [*worker, "--work-dir", str(folder / f"work-{number}"), url]
        processes.append(Process(command, log=folder / f"worker-{number}.log", cwd=folder, env=env))
    try:
        for process in processes:
            process.start()
        wait_until(
            lambda: processes[0].tail(1000).count("Registering worker") == 2,
            timeout_s=PATIENCE_S,
            what="both workers are known to the master",
        )
        yield url
    finally:
        for process in reversed(processes):
            process.stop()


def test_it_runs_on_a_spark_cluster_of_a_master_and_two_workers(tmp_path: Path) -> None:
    traffic = make_traffic(29, start_ms=START_MS, minutes=20, events=500)
    spark = '"spark.executor.memory" = "512m"\n"spark.driver.host" = "127.0.0.1"'
    with Cluster() as cluster, spark_cluster(tmp_path) as url:
        settings = {"bootstrap.servers": cluster.bootstrap}
        make_topics(settings, partitions=2)
        send(settings, traffic, slice(None))
        running = Running(tmp_path, cluster.bootstrap, limit=1000, spark=spark)
        try:
            running.finish("--batch", "--master", url, env={"SPARK_LOCAL_IP": "127.0.0.1"})
        finally:
            running.kill()
        for number in (1, 2):
            assert "Asked to launch executor" in (tmp_path / f"worker-{number}.log").read_text()
    assert wrong(running.data, traffic) == []
