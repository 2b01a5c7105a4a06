"""What every kind of test shares: the marker of its folder, and the real servers that Ottla is compared with."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import sources

sources.prefer_sources()

from tests.peers import maven
from tests.turns import Turns

# How long something takes on a busy machine says nothing about whether it is right.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")

_MARKED_BY_FOLDER = {"sim": "sim", "compat": "compat", "chaos": "chaos", "hostile": "alone"}
_SLOW = ("timeout", "sim", "compat", "chaos")
"""Markers of what may take minutes."""
_TURNS = pytest.StashKey[Turns]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in _MARKED_BY_FOLDER:
            item.add_marker(_MARKED_BY_FOLDER[folder])
    _put_in_order(items)


def _put_in_order(items: list[pytest.Item]) -> None:
    """By files, for two workers: first what may take minutes, so that both end together; last what has to be alone."""
    slow = {item.path for item in items if any(map(item.get_closest_marker, _SLOW))}
    alone = {item.path for item in items if item.get_closest_marker("alone")}
    items.sort(key=lambda item: 2 if item.path in alone else 0 if item.path in slow else 1)


def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    if worker is not None:  # one of several; see pytest-xdist
        config.stash[_TURNS] = Turns(worker["testrunuid"])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    turns = item.config.stash.get(_TURNS, None)
    if turns is None:
        return (yield)
    with turns.turn(alone=item.get_closest_marker("alone") is not None):
        return (yield)


def _libraries(name: str) -> Path:
    try:
        return maven.libraries(name)
    except maven.PeerMissingError as error:
        pytest.fail(f"{error}\nscripts/install-tools.sh installs what is missing", pytrace=False)


@pytest.fixture(scope="session")
def zookeeper_libs() -> Path:
    """The jars of ZooKeeper 3.9.5: ``java -cp DIR/* org.apache.zookeeper.server.quorum.QuorumPeerMain``."""
    return _libraries("zookeeper-3.9.5")


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The jars of Kafka 3.9.1 with its tools."""
    return _libraries("kafka-3.9.1")
