"""``ottla-python``: the Python for Spark's workers, which starts sooner than by its own name.

Spark has its workers find pyspark in an archive of sources, in front of everything else. What is imported from there is compiled
anew in every process: half a second and more, and the first query of a session waits for four of them, one after the other. An archive that lies in an
installed pyspark, as it does when Spark came from PyPI, has the same modules beside it, compiled long ago.

So this takes such archives off the path and goes on as the interpreter that it was installed with. Where Spark came
otherwise, the path stays as it is. For whoever sets ``PYSPARK_PYTHON``; nothing of pyspark may be imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "ottla-python"
PATH = "PYTHONPATH"


def worker_python() -> str:
    """What to set ``PYSPARK_PYTHON`` to, for workers with the same packages as this process."""
    script = Path(sys.executable).with_name(NAME)
    return str(script) if script.exists() else sys.executable


def without_archives(path: Iterable[str], installed: Iterable[str]) -> list[str]:
    """``path`` without those of Spark's archives whose content is found in ``installed``, the folders of packages, too."""
    places = {Path(each) for each in installed if each}
    return [entry for entry in path if not _is_spare(Path(entry), places)]


def _is_spare(entry: Path, places: set[Path]) -> bool:
    inside, place = entry.parts[-4:-1], Path(*entry.parts[:-4])
    if inside != ("pyspark", "python", "lib") or place not in places:
        return False
    package = entry.name.partition("-")[0].removesuffix(".zip")  # pyspark.zip, py4j-0.10.9.9-src.zip
    return (place / package / "__init__.py").exists()


def main() -> None:
    entries = [entry for entry in os.environ.get(PATH, "").split(os.pathsep) if entry]
    os.environ[PATH] = os.pathsep.join(without_archives(entries, set(sys.path) - set(entries)))
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606
