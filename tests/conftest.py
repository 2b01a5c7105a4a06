"""What every kind of test shares: the marker of its folder, and the real servers that Ottla is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import sources

sources.prefer_sources()

from tests.peers import maven

# How long something takes on a busy machine says nothing about whether it is right.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")

_MARKED_BY_FOLDER = ("sim", "compat", "chaos")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in _MARKED_BY_FOLDER:
            item.add_marker(folder)


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
