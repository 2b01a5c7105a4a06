"""The data source with the newest Spark: the quick tests of it once more, in a process that finds that one first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import pythons

ROOT = Path(__file__).resolve().parents[2]
VERSION = "4.3.0"
SHOWN = "import pyspark, pyspark_ottla; print(pyspark.__version__)"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_batches_streams_and_the_sink_work_with_pyspark_4_3() -> None:
    environment = {**os.environ, "PYTHONPATH": str(pythons.packages(f"pyspark-{VERSION}"))}
    shown = subprocess.run([sys.executable, "-c", SHOWN], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == VERSION
    tests = ["tests/compat/test_spark.py", "-m", "not long", "-q"]
    command = [sys.executable, "-X", "dev", "-m", "pytest", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1700)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
