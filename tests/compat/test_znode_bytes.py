"""The golden bytes of znodes and assignments are what the classes of Kafka 3.9.1 say today."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.peers.builds import java_classes
from tests.peers.ensemble import JAVA
from tests.unit.metadata.golden import encoded

_TIMESTAMP = re.compile(rb'"timestamp":"\d+"')


def test_the_golden_file_is_what_kafkas_classes_write() -> None:
    class_path = java_classes(Path(__file__).parent / "java" / "Znodes.java", "kafka-3.9.1")
    said = subprocess.run([*JAVA, "-cp", class_path, "Znodes"], capture_output=True, timeout=300, check=True).stdout
    now = {name.decode(): data for name, data in (line.split(b"\t", 1) for line in said.splitlines())}
    timeless = [{name: _TIMESTAMP.sub(b"", data) for name, data in each.items()} for each in (now, encoded())]
    assert timeless[0] == timeless[1]
