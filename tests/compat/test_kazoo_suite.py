"""kazoo's own test suite, unmodified, against three servers of ours.

The suite's harness starts ``java``; ``bin/java`` stands in for it and starts our keeper. Every test class starts and
ends a whole ensemble and sleeps on the way, so the modules are dealt out to two runs side by side; with more, some of
the suite's own waits are too short on two cores, with a real ZooKeeper too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import kazoo
import kazoo.tests
import pytest

from tests.peers.maven import CHECKOUT, class_path
from tests.peers.processes import free_ports
from tests.peers.pythons import packages

HERE = Path(__file__).parent
SITE = Path(kazoo.__file__).parents[1]
SUITE = Path(kazoo.tests.__path__[0])
WORKERS = 2

SLICE = ("test_barrier", "test_counter", "test_party")
"""Modules of the quick run: small, and between them creates, deletes, watches, ephemerals and versions."""

OWN_SKIPS = ("Only run build config tests on CI.",)
"""Reasons for which kazoo leaves out tests that have nothing to do with a server."""


@dataclass
class Outcome:
    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        self.passed |= other.passed
        self.failed |= other.failed
        self.skipped |= other.skipped


def cannot_apply() -> dict[str, str]:
    lines = (HERE / "kazoo.cannot-apply").read_text().splitlines()
    pairs = (line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs}


def modules() -> list[str]:
    return sorted(path.stem for path in SUITE.glob("test_*.py"))


def run(chosen: list[str], folder: Path, *, real: bool = False) -> Outcome:
    """Runs test ids or module names of the suite in a process of their own."""
    folder.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    report = folder / "report.xml"
    ids = [name if "::" in name else f"kazoo/tests/{name}.py" for name in chosen]
    command = [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), f"--rootdir={SITE}"]
    command += ["--import-mode=append", "-p", "no:randomly", "-p", "no:cacheprovider", "-q", "--timeout=180"]
    command += [f"--junitxml={report}", "-o", "junit_logging=no"]
    command += [f"--deselect={name}" for name in cannot_apply()]
    command += [str(SITE / name) for name in ids]
    with (folder / "output").open("w") as output:
        status = subprocess.run(
            command,
            cwd=folder,
            env=_environment(folder, real=real),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=1500,
            check=False,
        ).returncode
    if status not in (0, 1, 5):
        raise RuntimeError(f"kazoo's suite did not run ({status}):\n{(folder / 'output').read_text()[-5000:]}")
    return _outcome(report)


def _environment(folder: Path, *, real: bool) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "ZOOKEEPER"))}
    environment["ZOOKEEPER_VERSION"] = "3.9.5"
    environment["ZOOKEEPER_PORT_OFFSET"] = str(_free_range())
    environment["PYTHONPATH"] = os.pathsep.join((str(packages("kazoo-suite")), str(CHECKOUT / "src")))
    environment["TMPDIR"] = str(folder)
    if real:
        environment["ZOOKEEPER_CLASSPATH"] = class_path("zookeeper-3.9.5")
    else:
        environment["ZOOKEEPER_CLASSPATH"] = "none"
        environment["OTTLA_PYTHON"] = sys.executable
        environment["PATH"] = os.pathsep.join((str(HERE / "bin"), environment["PATH"]))
    return environment


def _free_range() -> int:
    """The first of thirty free ports in a row, which the harness divides among its servers."""
    while True:
        ports = free_ports(30)
        if ports[-1] - ports[0] == len(ports) - 1:
            return ports[0]


def _outcome(report: Path) -> Outcome:
    outcome = Outcome()
    for case in ET.parse(report).getroot().iter("testcase"):
        module, _, group = case.get("classname", "").removeprefix("kazoo.tests.").partition(".")
        name = "::".join(part for part in (f"kazoo/tests/{module}.py", group, case.get("name", "")) if part)
        bad = [child for child in case if child.tag in ("failure", "error")]
        skips = [child for child in case if child.tag == "skipped"]
        if bad:
            outcome.failed[name] = f"{bad[0].get('message', '')}\n{(bad[0].text or '')[-3000:]}"
        elif skips:
            outcome.skipped[name] = skips[0].get("message", "")
        else:
            outcome.passed.add(name)
    return outcome


def run_all(chosen: list[str], folder: Path, *, real: bool = False) -> Outcome:
    """Deals the modules out to a few runs side by side."""
    total = Outcome()
    # The long modules first, so that no run is left alone with one at the end.
    order = sorted(chosen, key=lambda name: -(SUITE / f"{name}.py").stat().st_size)
    with ThreadPoolExecutor(WORKERS) as pool:
        for part in pool.map(lambda name: run([name], folder / name, real=real), order):
            total.add(part)
    return total


def check(outcome: Outcome, at_least: int) -> None:
    told = "\n\n".join(f"{name}: {why}" for name, why in outcome.failed.items())
    assert not outcome.failed, f"{len(outcome.failed)} tests of kazoo's suite failed:\n{told}"
    assert set(outcome.skipped.values()) <= set(OWN_SKIPS), outcome.skipped
    assert len(outcome.passed) >= at_least, f"only {len(outcome.passed)} tests ran"


def test_a_slice_of_the_suite_passes(tmp_path: Path) -> None:
    check(run_all(list(SLICE), tmp_path / "suite"), at_least=15)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_whole_suite_passes(tmp_path: Path) -> None:
    check(run_all(modules(), tmp_path / "suite"), at_least=450)


def test_only_tls_sasl_and_reconfig_are_left_out() -> None:
    listed = cannot_apply()
    assert set(listed.values()) <= {"TLS", "SASL", "reconfig"}
    for name in listed:
        path, _, group = name.partition("::")
        source = (SITE / path).read_text()
        assert not group or f"class {group}(" in source, f"{name} is no longer in the suite"
