"""The compiled modules behave as their sources do: what tests the sources tests them, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import sources

ROOT = Path(__file__).parent.parent.parent
PROCESSES = ("tests/unit/cli", "tests/unit/testing", "tests/unit/pipeline")
"""What they test runs in processes of its own, compiled in any case, or is not compiled at all."""

if sources.COMPILED:

    def test_it_is_the_compiled_modules_that_run() -> None:
        from ottla.base.compiled import is_compiled

        assert is_compiled(), "make setup compiles; it needs a C compiler"

else:

    @pytest.mark.timeout(1500)
    def test_everything_holds_for_the_compiled_modules() -> None:
        folders = ("tests/unit", "tests/scenarios", "tests/property")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-m",
                "not long",
                *folders,
                *(f"--ignore={folder}" for folder in PROCESSES),
            ],
            check=False,
            cwd=ROOT,
            env={**os.environ, "OTTLA_TESTS": "compiled"},
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout[-4000:]
