"""Apache Kafka 3.9.1, unmodified, with ``zookeeper.connect`` at three servers of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.kafka_traffic import one_broker, three_brokers
from tests.peers import OttlaKeepers
from tests.peers.kafka import KafkaBrokers


def test_a_broker_lives_through_a_killed_leader(tmp_path: Path) -> None:
    with OttlaKeepers(3, tmp_path) as keepers, KafkaBrokers(1, keepers.hosts, tmp_path) as brokers:
        one_broker(keepers, brokers, tmp_path / "traffic.log")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_three_brokers_fail_over_and_lose_nothing(tmp_path: Path) -> None:
    with OttlaKeepers(3, tmp_path) as keepers, KafkaBrokers(3, keepers.hosts, tmp_path) as brokers:
        three_brokers(keepers, brokers, tmp_path / "traffic.log")
