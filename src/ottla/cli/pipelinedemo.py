"""The demonstration of the pipeline: made traffic, a cluster, the pipeline live on it, and what it found beside the truth.

The pipeline is the command ``ottla pipeline run`` in a process of its own, as anybody would run it. How far it is stands in the
manifest of its tables.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from ottla.base.errors import Error
from ottla.pipeline.report import write_report
from ottla.pipeline.traffic import Arrival, Traffic, make_traffic
from ottla.pipeline.traffic.sending import Sender, make_topics
from ottla.pipeline.verdict import Finding, compare, read_rows
from ottla.scan import manifest

MINUTES = 90
HOURS_AGO = 6
"""The traffic is of this morning, so that what is late of it is not of tomorrow."""
STALLED_S = 900.0
_SLICES = 40
_SPARKS = " ▁▂▃▄▅▆▇█"
DEFINITION = """\
# The pipeline of the demonstration. Its batches are small: to compile code for them would take longer than to run them.
directory = "data"

[source]
topics = [{topics}]

[serve]
trigger = "1s"

[tables.pages]
topic = "{prefix}pages"
[tables.sessions]
[tables.funnel]
[tables.ads]
[tables.searches]
[tables.services]

[spark]
"spark.sql.shuffle.partitions" = 2
"spark.sql.codegen.wholeStage" = false
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.sql.adaptive.enabled" = false
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


class DemoError(Error):
    """The demonstration cannot go on."""


@dataclass(slots=True)
class Demo:
    """``disturb`` kills a broker and says which; it is called half-way."""

    settings: Mapping[str, str]
    folder: Path
    console: Console
    events: int = 6000
    seed: int = 1
    send_s: float = 20.0
    replicas: int = 3
    prefix: str = "shop."
    master: str = "local[2,4]"
    disturb: Callable[[], str] | None = None
    remarks: list[str] = field(default_factory=list)

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    def run(self) -> bool:
        """Whether everything that was found is true."""
        started_ms = int(time.time() * 1000) - HOURS_AGO * 3_600_000
        traffic = make_traffic(self.seed, start_ms=started_ms, minutes=MINUTES, events=self.events, prefix=self.prefix)
        topics = make_topics(self.settings, prefix=self.prefix, replicas=self.replicas)
        make_results(self.settings, f"{self.prefix}pages", self.replicas)
        self.folder.mkdir(parents=True, exist_ok=True)
        definition = self.folder / "shop.toml"
        definition.write_text(DEFINITION.format(topics=", ".join(f'"{topic}"' for topic in topics), prefix=self.prefix))
        begin = time.monotonic()
        with self._pipeline(definition) as process:
            self._watch(process, traffic)
        took = time.monotonic() - begin
        findings = compare(self.folder / "data", traffic.truth)
        self.remarks.append(f"{traffic.truth.records:,} records in {took:.0f} s, Spark's start included.")
        write_report(self.folder / "data", self.report, name="A shop", findings=findings, remarks=self.remarks)
        self.console.print(findings_table(findings))
        return all(one.is_right for one in findings)

    @contextmanager
    def _pipeline(self, definition: Path) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-P", "-m", "ottla", "pipeline", "run", os.fspath(definition), "--stream"]
        command += ["--master", self.master]
        for name, value in self.settings.items():
            command += ["-X", f"{name}={value}"]
        with (self.folder / "pipeline.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _watch(self, process: subprocess.Popen[bytes], traffic: Traffic) -> None:
        sender = Sender(self.settings)
        sending = _Sending(sender, traffic.arrivals, self.send_s, self._disturb)
        sending.start()
        wanted = traffic.truth.records
        view = _View(self.folder / "data", wanted, self.console)
        moved = time.monotonic()
        with view.live():
            read = 0
            while read < wanted:
                if process.poll() is not None:
                    told = (self.folder / "pipeline.log").read_text(errors="replace")[-2000:]
                    raise DemoError(f"the pipeline ended with {process.returncode}:\n{told}")
                now = view.show(sender.acknowledged)
                if now != read:
                    read, moved = now, time.monotonic()
                elif time.monotonic() > moved + STALLED_S:
                    raise DemoError(
                        f"the pipeline has read {read} of {wanted} records, and nothing for {STALLED_S:g} s"
                    )
                time.sleep(0.5)
        sending.join()
        if sending.error is not None:
            raise sending.error

    def _disturb(self) -> None:
        """In the midst of it: when something was found already, and something is still to come."""
        if self.disturb is not None:
            while manifest.load(self.folder / "data") is None:
                time.sleep(0.1)
            told = self.disturb()
            self.remarks.append(told)
            self.console.print(f"  {told}")


class _Sending(threading.Thread):
    """Traffic in slices, over a given time, with something in the middle of it."""

    def __init__(self, sender: Sender, arrivals: list[Arrival], over_s: float, half_way: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._sender = sender
        self._arrivals = arrivals
        self._over_s = over_s
        self._half_way = half_way
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            size = len(self._arrivals) // _SLICES + 1
            for number in range(_SLICES):
                if number == _SLICES // 2:
                    self._sender.flush()
                    self._half_way()
                self._sender.send(self._arrivals[number * size : (number + 1) * size])
                time.sleep(self._over_s / _SLICES)
            self._sender.flush()
        except Exception as error:  # noqa: BLE001  # told by whoever waits for the thread
            self.error = error


class _View:
    """How far it is: redrawn on a terminal, one line a batch elsewhere."""

    def __init__(self, directory: Path, wanted: int, console: Console) -> None:
        self._directory = directory
        self._wanted = wanted
        self._console = console
        self._live: Live | None = None
        self._batch = -1

    @contextmanager
    def live(self) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=4) as self._live:
            yield

    def show(self, sent: int) -> int:
        """Draw, and say how many records were read."""
        state = manifest.load(self._directory) if self._directory.exists() else None
        totals: dict[str, int] = state["totals"] if state else {}
        read = totals.get("records", 0)
        batch = state["batch"] if state else -1
        if self._live is not None:
            self._live.update(Group(self._numbers(totals, sent), *self._pages(changed=batch != self._batch)))
        elif batch != self._batch:
            dead = sum(number for name, number in totals.items() if name.startswith("dead."))
            self._console.print(
                f"  batch {batch}: {sent:,} records sent, {read:,} read, {totals.get('events', 0):,} events, "
                f"{totals.get('copies', 0):,} copies, {totals.get('robots', 0):,} of robots, {dead:,} dead letters"
            )
        self._batch = batch
        return read

    def _numbers(self, totals: Mapping[str, int], sent: int) -> Table:
        table = Table("sent", "read", "events", "copies", "of robots", "dead letters", title="live")
        dead = sum(number for name, number in totals.items() if name.startswith("dead."))
        numbers = (totals.get(name, 0) for name in ("records", "events", "copies", "robots"))
        table.add_row(f"{sent:,} of {self._wanted:,}", *(f"{number:,}" for number in numbers), f"{dead:,}")
        return table

    _drawn: tuple[Any, ...] = ()

    def _pages(self, *, changed: bool) -> tuple[Any, ...]:
        if changed:
            rows = read_rows(self._directory, "pages")
            pages: Counter[str] = Counter()
            minutes: Counter[object] = Counter()
            for row in rows:
                pages[row["page"]] += row["views"]
                minutes[row["minute"]] += row["views"]
            table = Table("page", "views")
            for page, views in pages.most_common(8):
                table.add_row(page, f"{views:,}")
            self._drawn = (f"views a minute  {sparkline([minutes[at] for at in sorted(minutes, key=str)])}", table)
        return self._drawn


def sparkline(values: list[int], width: int = 72) -> str:
    """The last of them, as high as they are."""
    shown = values[-width:]
    most = max(shown, default=0) or 1
    return "".join(_SPARKS[-(-value * (len(_SPARKS) - 1) // most)] for value in shown)


def findings_table(findings: list[Finding]) -> Table:
    table = Table("", "found", "true", "")
    for one in findings:
        verdict = "[green]right[/]" if one.is_right else "[bold red]wrong[/]"
        table.add_row(one.what, f"{one.found:,}", f"{one.true:,}", verdict)
    return table


def make_results(settings: Mapping[str, str], topic: str, replicas: int) -> None:
    """The topic of a table: compacted, since its records are the latest of their rows."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"log_level": 0, **settings})
    admin.create_topics([NewTopic(topic, 1, replicas, config={"cleanup.policy": "compact"})])[topic].result(30)
