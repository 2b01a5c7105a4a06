"""A log of old, with messages of magic 0 or 1, is served as it is, and librdkafka reads it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ottla.records import Codec
from tests.chaos.records import create_topic, read_all
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.unit.records.old import old_run

KINDS = [(magic, codec) for magic in (0, 1) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY)]
RECORDS = 20


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
def test_old_messages_are_read(tmp_path: Path, clean: bool) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers, OttlaBrokers(1, keepers.hosts, tmp_path) as brokers:
        create_topic(brokers.bootstrap, name="old", partitions=len(KINDS))
        brokers.brokers[0].signal(signal.SIGTERM)
        assert brokers.brokers[0].wait(120) == 0
        for partition, (magic, codec) in enumerate(KINDS):
            folder = brokers.data() / f"old-{partition}"
            data = b"".join(old_run(magic, codec, first=first, count=5) for first in range(0, RECORDS, 5))
            for path in folder.glob("0*"):
                path.unlink()
            (folder / f"{0:020d}.log").write_bytes(data)
        if not clean:
            (brokers.data() / ".kafka_cleanshutdown").unlink()
        brokers.start(0)
        for partition in range(len(KINDS)):
            found = read_all(brokers.bootstrap, partition, topic="old")
            assert found == [(offset, f"v{offset % 5}") for offset in range(RECORDS)], KINDS[partition]
