"""A server that nobody attacks, to tell what a busy machine does from what an attack does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile import oracle
from tests.peers import OttlaKeepers


@pytest.fixture(scope="session", autouse=True)
def calm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("calm")) as ensemble:
        oracle.calm_port = ensemble.client_ports[0]
        yield
