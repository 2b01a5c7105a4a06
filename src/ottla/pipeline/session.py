"""A Spark session for a pipeline, and the Java that Spark needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base.errors import Error
from pyspark_ottla.python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_AT_LEAST = 17
HOW = "Debian: apt-get install openjdk-17-jre-headless; anywhere: set JAVA_HOME to a Java 17 or newer"


class JavaError(Error):
    """Spark cannot run here."""


def find_java(environment: Mapping[str, str]) -> Path:
    """The Java that Spark will take, if it is new enough."""
    home = environment.get("JAVA_HOME")
    named = Path(home, "bin", "java") if home else None
    found = shutil.which("java", path=environment.get("PATH")) if named is None else str(named)
    if found is None or not Path(found).exists():
        where = f"there is none at {named} (JAVA_HOME)" if named else "there is none in PATH"
        raise JavaError(f"Spark needs Java, and {where}. {HOW}")
    told = subprocess.run([found, "-version"], check=False, capture_output=True, text=True)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < JAVA_AT_LEAST:
        which = "is none" if version is None else f"is Java {version[1]}"
        raise JavaError(f"Spark needs Java {JAVA_AT_LEAST} or newer, and {found} {which}. {HOW}")
    return Path(found)


def open_session(name: str, master: str, more: Mapping[str, str]) -> SparkSession:
    """A session that runs already is used; whoever runs it has chosen its settings."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
        **more,
    }
    builder = SparkSession.builder.master(master).appName(f"ottla pipeline {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    # Hours and days are those of UTC, wherever this runs.
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark
