"""The same rows and answers through Spark's own Kafka connector and through Ottla's source, on Ottla's broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_both_read_the_same_rows() -> None:
    command = [sys.executable, "-m", "bench.spark", "--events", "20000", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=880)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "rows: 20000 by Spark's connector, 20000 by Ottla; 0 are lacking, 0 are too many" in done.stdout
