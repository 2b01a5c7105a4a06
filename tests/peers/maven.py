"""Java libraries from Maven, brought once into ``.peers/NAME`` of the checkout.

A set counts as complete only when its stamp says so, and the stamp holds the list that was asked for: a changed list
or an interrupted download is fetched again. A lock file keeps two test runs from fetching the same set at once.

    python -m tests.peers.maven [NAME ...]
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PEERS = CHECKOUT / ".peers"

ZOOKEEPER_VERSION = "3.9.5"

SETS: dict[str, tuple[str, ...]] = {
    # Maven has no zookeeper-prometheus-metrics:3.9.5. The provider only renders what the server registers, so the one
    # of 3.9.4 shows the metrics of a 3.9.5. Jetty is the version that ZooKeeper 3.9.5 names.
    "zookeeper-3.9.5": (
        f"org.apache.zookeeper:zookeeper:{ZOOKEEPER_VERSION}",
        "org.apache.zookeeper:zookeeper-prometheus-metrics:3.9.4",
        "org.eclipse.jetty:jetty-server:9.4.58.v20250814",
        "org.eclipse.jetty:jetty-servlet:9.4.58.v20250814",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "org.xerial.snappy:snappy-java:1.1.10.5",
        "org.slf4j:slf4j-simple:2.0.13",
    ),
    "kafka-3.9.1": (
        "org.apache.kafka:kafka_2.13:3.9.1",
        "org.apache.kafka:kafka-tools:3.9.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "kafka-applications-3.9.1": (
        "org.apache.kafka:connect-runtime:3.9.1",
        "org.apache.kafka:connect-file:3.9.1",
        "org.apache.kafka:connect-mirror:3.9.1",
        "org.apache.kafka:kafka-streams:3.9.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "kafka-4.3.1": (
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    # Its message classes alone; their JSON converters need Jackson, which clients are not given.
    "kafka-clients-4.3.1": (
        "org.apache.kafka:kafka-clients:4.3.1",
        "com.fasterxml.jackson.core:jackson-databind:2.16.2",
    ),
    "curator-5.9.0": (
        "org.apache.curator:curator-recipes:5.9.0",
        f"org.apache.zookeeper:zookeeper:{ZOOKEEPER_VERSION}",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "org.xerial.snappy:snappy-java:1.1.10.5",
        "org.slf4j:slf4j-simple:2.0.13",
    ),
}


ALONE = {
    # What these depend on is Spark itself, which pyspark brings.
    "spark-kafka-4.2.0": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
}
"""Sets that are fetched without what they depend on."""
SETS |= ALONE


class PeerMissingError(Exception):
    """A peer could not be brought to this machine."""


def libraries(name: str) -> Path:
    """The folder with the jars of one set, fetched if it is not there yet."""
    wanted = SETS[name]
    PEERS.mkdir(exist_ok=True)
    with (PEERS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        home = PEERS / name
        stamp = home / "complete"
        if not stamp.exists() or stamp.read_text().split() != list(wanted):
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            _fetch(wanted, home)
            stamp.write_text("\n".join(wanted) + "\n")
        return home


def class_path(name: str) -> str:
    return str(libraries(name) / "*")


def _fetch(wanted: tuple[str, ...], home: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        message = "Maven (mvn) is needed to fetch the peers of the compatibility tests"
        raise PeerMissingError(message)
    pom = home / "pom.xml"
    pom.write_text(_project(wanted))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={home}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        message = f"Maven did not bring {', '.join(wanted)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        raise PeerMissingError(message)


def _project(wanted: tuple[str, ...]) -> str:
    everything = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    exclusions = everything if wanted in ALONE.values() else ""
    lines = [
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>',
        "<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><dependencies>",
    ]
    for artifact in wanted:
        group, name, version = artifact.split(":")
        lines.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            f"{exclusions}</dependency>"
        )
    lines.append("</dependencies></project>")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SETS:
        print(libraries(chosen))
