"""Brokers on Apache ZooKeeper: one is killed under load, and one of the ensemble, and nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.records import Writer, check_partition, create_topic, read_all
from tests.peers import RealZooKeeper
from tests.peers.brokers import OttlaBrokers

BROKERS, PARTITIONS = 3, 3
SETTINGS = {"min.insync.replicas": "2", "auto.leader.rebalance.enable": "false"}


def test_on_zookeeper_whoever_is_killed_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with (
        RealZooKeeper(3, tmp_path / "zookeeper") as ensemble,
        OttlaBrokers(BROKERS, ensemble.hosts, tmp_path, settings=SETTINGS) as brokers,
    ):
        create_topic(brokers.bootstrap, partitions=PARTITIONS, replicas=BROKERS)
        writers = [Writer(brokers.bootstrap, n, name=f"w{n}", pause_s=0.002) for n in range(PARTITIONS)]
        for writer in writers:
            writer.start()
        acknowledged(writers)
        brokers.kill(0)
        acknowledged(writers)
        ensemble.kill(ensemble.leader())
        brokers.start(0)
        brokers.kill(1)
        acknowledged(writers)
        brokers.start(1)
        for writer in writers:
            writer.stop()
        for writer in writers:
            check_partition(read_all(brokers.bootstrap, writer.partition), [writer])


def acknowledged(writers: list[Writer]) -> None:
    for writer in writers:
        writer.wait_acked(20)
