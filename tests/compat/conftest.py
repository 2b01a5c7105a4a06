"""Clients that nobody here wrote, the clusters they are sent to, and the card that says how they did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from tests.compat.card import Card
from tests.compat.clients.client import Client
from tests.compat.clients.cluster import KINDS, Cluster, running
from tests.compat.clients.roster import BY_NAME, ROSTER
from tests.peers.maven import PeerMissingError

CARD = pytest.StashKey[Card]()
OURS, APACHES = KINDS
NUMBERS = count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CARD] = card = Card()

    class Collector:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            card.add(report)

    config.pluginmanager.register(Collector())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash[CARD].lines()
    if lines:
        terminalreporter.section("clients that nobody here wrote")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test with ``client`` runs with all clients that have what it needs, and in full on Apache Kafka too."""
    marker = metafunc.definition.get_closest_marker("card")
    if marker is None:
        return
    able = [entry for entry in ROSTER if entry.lacks.isdisjoint(marker.kwargs.get("needs", ()))]
    if {"client", "codec"} <= set(metafunc.fixturenames):
        pairs = [(entry.name, codec) for entry in able for codec in entry.codecs]
        metafunc.parametrize(("client", "codec"), pairs, indirect=["client"])
    elif "client" in metafunc.fixturenames:
        slow = marker.kwargs.get("slow", ())
        chosen = [pytest.param(one.name, marks=[pytest.mark.long] if one.name in slow else []) for one in able]
        metafunc.parametrize("client", chosen, indirect=True)
    if "cluster" in metafunc.fixturenames:
        on = [OURS, pytest.param(APACHES, marks=pytest.mark.long)]
        metafunc.parametrize("cluster", on, indirect=True, ids=["ottla", "apache"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("card")
        if marker is None:
            continue
        chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        item.user_properties += [
            ("did", marker.args[0]),
            ("client", marker.kwargs.get("client") or chosen["client"]),
            ("server", chosen.get("cluster", OURS)),
        ]


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Client]]:
    """Starts a client when it is first asked for; one program serves all tests."""
    started: dict[str, Client] = {}
    folder = tmp_path_factory.mktemp("clients")
    with ExitStack() as stack:

        def client(name: str) -> Client:
            if name not in started:
                try:
                    made = Client(BY_NAME[name], folder / f"{name}.log")
                except PeerMissingError as error:
                    pytest.fail(f"{error}\nscripts/install-tools.sh installs what is missing", pytrace=False)
                started[name] = stack.enter_context(made)
            return started[name]

        yield client


@pytest.fixture
def client(request: pytest.FixtureRequest, clients: Callable[[str], Client]) -> Client:
    found = clients(request.param)
    request.node.user_properties.append(("version", found.version))
    return found


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    """Starts a cluster when it is first asked for."""
    started: dict[str, Cluster] = {}
    with ExitStack() as stack:

        def cluster(kind: str) -> Cluster:
            if kind not in started:
                started[kind] = stack.enter_context(running(kind, tmp_path_factory.mktemp("cluster")))
            return started[kind]

        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name nobody has used."""
    return f"{request.node.originalname}.{next(NUMBERS)}"
