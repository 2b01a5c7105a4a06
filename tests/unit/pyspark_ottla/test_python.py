"""The Python for Spark's workers: what Spark puts on its path, and what is left of that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pyspark_ottla.python import without_archives, worker_python

INSTALLED = Path(pyspark.__file__).parents[1]
ARCHIVES = sorted(map(str, (INSTALLED / "pyspark" / "python" / "lib").glob("*.zip")))


def place(folder: Path, *packages: str) -> str:
    for package in packages:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    return str(folder)


def archive(folder: str, name: str = "pyspark.zip") -> str:
    return str(Path(folder, "pyspark", "python", "lib", name))


def test_archives_of_an_installed_spark_are_spare(tmp_path: Path) -> None:
    site = place(tmp_path, "pyspark", "py4j")
    path = [archive(site), archive(site, "py4j-0.10.9.9-src.zip"), "/jobs/own.zip"]
    assert without_archives(path, ["/usr/lib", site]) == ["/jobs/own.zip"]


def test_an_archive_is_kept_unless_its_package_is_installed_beside_it(tmp_path: Path) -> None:
    site = place(tmp_path, "pyspark")
    kept = archive(site, "py4j-0.10.9.9-src.zip")
    assert without_archives([archive(site), kept], [site]) == [kept]


def test_another_spark_than_the_installed_one_is_left_alone(tmp_path: Path) -> None:
    site, other = place(tmp_path / "site", "pyspark"), place(tmp_path / "other", "pyspark")
    assert without_archives([archive(other), "/opt/spark/python/lib/pyspark.zip"], [site]) == [
        archive(other),
        "/opt/spark/python/lib/pyspark.zip",
    ]


@pytest.mark.parametrize("mine", ["", "/jobs/own.zip"])
def test_it_is_the_interpreter_it_was_installed_with(mine: str) -> None:
    path = os.pathsep.join([*ARCHIVES, *filter(None, [mine])])
    program = "import os, sys, pyspark; print(sys.prefix, os.environ['PYTHONPATH'], pyspark.__file__, sys.argv[1])"
    done = subprocess.run(
        [worker_python(), "-c", program, "as it was"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ARCHIVES
    assert worker_python() != sys.executable
    assert done.stdout.split(" ", 3) == [sys.prefix, mine, pyspark.__file__, "as it was\n"]
