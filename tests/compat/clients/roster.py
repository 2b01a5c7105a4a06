"""Who there is: how each client's program is made and started, and what the client itself does not have."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers.builds import go_program, java_classes
from tests.peers.maven import PeerMissingError

HERE = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Entry:
    """``lacks`` names what the client cannot do, whatever the server: a codec, or a word of the scenarios."""

    name: str
    command: Callable[[], Sequence[str | Path]]
    lacks: frozenset[str] = frozenset()

    @property
    def codecs(self) -> list[str]:
        return [codec for codec in CODECS if codec not in self.lacks]


def _python(module: str) -> Callable[[], Sequence[str | Path]]:
    return lambda: [sys.executable, "-m", f"tests.compat.clients.{module}"]


def _java(libraries: str) -> Callable[[], Sequence[str | Path]]:
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")
    quiet = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
    return lambda: ["java", *quick, *quiet, "-cp", java_classes(HERE / "Driver.java", libraries), "Driver"]


def _kcat() -> Sequence[str | Path]:
    if shutil.which("kcat") is None:
        raise PeerMissingError("kcat is missing")
    return _python("kcat")()


ROSTER = [
    Entry("confluent-kafka", _python("librdkafka")),
    Entry("kafka-python", _python("kafkapython"), frozenset({"neither key nor value", "null headers"})),
    Entry("aiokafka", _python("aio"), frozenset({"neither key nor value"})),
    Entry("kcat", _kcat, frozenset({"topics made", "settings", "times sent", "offsets told", "empty beside null"})),
    Entry("kafka-clients 3.9", _java("kafka-3.9.1")),
    Entry("kafka-clients 4.3", _java("kafka-clients-4.3.1")),
    Entry("franz-go", lambda: [go_program(HERE / "go", "franz")]),
    Entry("sarama", lambda: [go_program(HERE / "go", "sarama")]),
]
BY_NAME = {entry.name: entry for entry in ROSTER}
