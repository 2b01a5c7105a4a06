"""What pytest gets by Ottla being installed: the fixture ``ottla_cluster``, a cluster for one test.

def test_it(ottla_cluster): ...

@pytest.mark.ottla(settings={"num.partitions": "3"})     # whatever ``Cluster`` takes
def test_that(ottla_cluster): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "ottla(brokers=1, keepers=None, settings=None, partitions=False): the cluster of ottla_cluster"
    )


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A running cluster; see ``ottla.testing.Cluster``."""
    mark = request.node.get_closest_marker("ottla")
    wanted = {"folder": tmp_path / "ottla", **(mark.kwargs if mark else {})}
    with Cluster(*(mark.args if mark else ()), **wanted) as cluster:
        yield cluster
