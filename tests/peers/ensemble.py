"""An ensemble of ZooKeeper servers, Apache's or ours, behind one interface.

Both read the same ``zoo.cfg`` and ``myid``. Settings go into the file; properties are what Java takes as ``-D``, and
our server as ``--set``. Servers are counted from 0; their ids in the ensemble from 1.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.peers import maven
from tests.peers.processes import Process, free_ports, wait_until
from tests.peers.words import mode

SETTINGS = {
    "tickTime": "500",
    "initLimit": "20",
    "syncLimit": "10",
    "maxClientCnxns": "0",
    "4lw.commands.whitelist": "*",
    "admin.enableServer": "false",
}

JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")
"""A JVM that starts quickly: these servers live for seconds."""


class Ensemble(ABC):
    """``size`` voting servers and ``observers`` more; one voting server alone is a standalone server.

    With ``metrics``, each server also offers Prometheus's ``/metrics`` on its own port of ``metrics_ports``.
    """

    name = ""

    def __init__(
        self,
        size: int,
        directory: Path,
        *,
        observers: int = 0,
        settings: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        metrics: bool = False,
    ) -> None:
        count = size + observers
        self.size = size
        self.metrics = metrics
        self.settings = {**SETTINGS, **(settings or {})}
        self.properties = dict(properties or {})
        self.home = directory / self.name
        ports = free_ports(4 * count)
        self.client_ports = ports[:count]
        self.quorum_ports = ports[count : 2 * count]
        self.election_ports = ports[2 * count : 3 * count]
        self.metrics_ports = ports[3 * count :]
        self.servers = [self._make_server(index) for index in range(count)]

    @abstractmethod
    def _command(self, index: int, config: Path) -> list[str]: ...

    def _environment(self) -> dict[str, str]:
        return {}

    def folder(self, index: int) -> Path:
        return self.home / f"server-{index + 1}"

    def data(self, index: int) -> Path:
        return self.folder(index) / "data"

    def _make_server(self, index: int) -> Process:
        folder = self.folder(index)
        self.data(index).mkdir(parents=True)
        settings = {
            **self.settings,
            "dataDir": str(self.data(index)),
            "clientPort": str(self.client_ports[index]),
            "clientPortAddress": "127.0.0.1",
            **(metrics_settings(self.metrics_ports[index]) if self.metrics else {}),
        }
        lines = [f"{key}={value}" for key, value in settings.items()]
        if len(self.client_ports) > 1:
            (self.data(index) / "myid").write_text(f"{index + 1}\n")
            if index >= self.size:
                lines.append("peerType=observer")
            for peer, (quorum, election) in enumerate(zip(self.quorum_ports, self.election_ports, strict=True)):
                kind = ":observer" if peer >= self.size else ""
                lines.append(f"server.{peer + 1}=127.0.0.1:{quorum}:{election}{kind}")
        config = folder / "zoo.cfg"
        config.write_text("\n".join(lines) + "\n")
        return Process(self._command(index, config), log=folder / "log", cwd=folder, env=self._environment())

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports)

    def start(self, *, timeout_s: float = 60) -> Self:
        for server in self.servers:
            server.start()
        self.wait_ready(timeout_s=timeout_s)
        return self

    def wait_ready(self, *, timeout_s: float = 60) -> None:
        """Until every server that runs serves requests."""
        deadline = time.monotonic() + timeout_s
        for index, server in enumerate(self.servers):
            if server.running:
                self.wait_serving(index, timeout_s=max(deadline - time.monotonic(), 0.1))

    def wait_serving(self, index: int, *, timeout_s: float = 60) -> str:
        """Until server ``index`` serves requests; gives its mode."""
        server = self.servers[index]

        def serving() -> str | None:
            if not server.running:
                message = f"{self.name} server {index} ended with {server.returncode}:\n{server.tail()}"
                raise RuntimeError(message)
            return mode(self.client_ports[index])

        try:
            return wait_until(serving, timeout_s=timeout_s, what=f"{self.name} server {index} serves")
        except TimeoutError as error:
            message = f"{error}\n{server.tail()}"
            raise TimeoutError(message) from None

    def stop(self) -> None:
        """Ends every server; a JVM has nothing to lose that -9 would take, and ends at once that way."""
        for server in self.servers:
            server.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def kill(self, index: int) -> None:
        self.servers[index].kill()

    def pause(self, index: int) -> None:
        self.servers[index].pause()

    def resume(self, index: int) -> None:
        self.servers[index].resume()

    def restart(self, index: int, *, timeout_s: float = 60) -> None:
        """Starts a server again, ending it first if it runs, and waits until it serves."""
        if self.servers[index].running:
            self.servers[index].stop()
        self.servers[index].start()
        self.wait_serving(index, timeout_s=timeout_s)

    def modes(self) -> list[str | None]:
        return [
            mode(port) if server.running else None for port, server in zip(self.client_ports, self.servers, strict=True)
        ]

    def leader(self, *, timeout_s: float = 120) -> int:
        """The index of the server that leads now (or of the only one)."""

        def lead() -> tuple[int] | None:
            for index, found in enumerate(self.modes()):
                if found in ("leader", "standalone"):
                    return (index,)
            return None

        return wait_until(lead, timeout_s=timeout_s, what=f"a leader among {self.name}")[0]

    def roles(self) -> list[str | None]:
        """The mode of each server that runs, once all of them have said it; on a busy machine that may take a while."""

        def told() -> list[str | None] | None:
            modes = self.modes()
            said = (found or not server.running for found, server in zip(modes, self.servers, strict=True))
            return modes if all(said) else None

        return wait_until(told, timeout_s=120, what=f"all of {self.name} say what they are")

    def followers(self) -> list[int]:
        return [index for index, found in enumerate(self.roles()) if found == "follower"]

    def log(self, index: int) -> str:
        return self.servers[index].log.read_text(errors="replace")


class RealZooKeeper(Ensemble):
    """Apache ZooKeeper 3.9.5."""

    name = "zookeeper"

    def _command(self, index: int, config: Path) -> list[str]:
        return [
            *JAVA,
            *(f"-D{key}={value}" for key, value in self.properties.items()),
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-cp",
            maven.class_path("zookeeper-3.9.5"),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(config),
        ]


class OttlaKeepers(Ensemble):
    """Our own server, from this checkout and the interpreter that runs the tests."""

    name = "ottla"

    def _environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(maven.CHECKOUT / "src"), "PYTHONUNBUFFERED": "1"}

    def _command(self, index: int, config: Path) -> list[str]:
        command = [sys.executable, "-m", "ottla", "keeper", str(config)]
        for key, value in self.properties.items():
            command += ["--set", f"{key}={value}"]
        return command


def metrics_settings(port: int) -> dict[str, str]:
    return {
        "metricsProvider.className": "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
        "metricsProvider.httpHost": "127.0.0.1",
        "metricsProvider.httpPort": str(port),
    }
