"""The pages about SQL and the pipeline: what they show is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.compat.page import run_page

KEPT = {"log.retention.ms": "-1"}  # the records of these pages are old
pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]


@pytest.mark.parametrize(("page", "blocks"), [("sql.md", 4), ("pipeline.md", 1)])
def test_the_page_shows_what_the_commands_print(page: str, blocks: int, tmp_path: Path) -> None:
    with Cluster(brokers=1, settings=KEPT) as cluster:
        environment = {"OTTLA_BOOTSTRAP": cluster.bootstrap}
        assert run_page(page, environment, tmp_path, timeout_s=1200) == blocks
