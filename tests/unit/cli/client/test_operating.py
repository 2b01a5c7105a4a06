from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.cli.client import operating
from ottla.cli.client.connection import Target
from ottla.cli.client.operating import BROKER, NoControllerError, OperationError, Operations
from ottla.wire import ApiKey

from .standins import StandIns


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(operating, "_LOOK_AGAIN_S", 0.01)


@pytest.fixture
def cluster() -> Iterator[StandIns]:
    with StandIns(1, 2, 3).running() as running:
        yield running


def operations(cluster: StandIns, *bootstrap: int, timeout_s: float = 60.0) -> Operations:
    return Operations(Target({"bootstrap.servers": cluster.bootstrap(*bootstrap)}, timeout_s))


def test_a_controller_whose_address_refuses_is_asked_for_until_there_is_another(cluster: StandIns) -> None:
    cluster.kill(1)
    cluster.next_controller = 2
    with operations(cluster, 3) as asked:
        assert asked.controller_id == 1
        assert asked.moves() == {}
        assert asked.controller_id == 2


def test_a_controller_that_says_nothing_is_given_up_for_another(cluster: StandIns) -> None:
    cluster.silence(1)
    cluster.next_controller = 2
    with operations(cluster, 3) as asked:
        assert asked.moves() == {}
    assert cluster.times(2, ApiKey.LIST_PARTITION_REASSIGNMENTS) == 1


def test_a_controller_that_falls_silent_is_asked_once_while_it_rules(cluster: StandIns) -> None:
    with operations(cluster, 3, timeout_s=0.5) as asked:
        asked.moves()
        cluster.silence(1)
        with pytest.raises(NoControllerError, match="there is no controller that answers"):
            asked.moves()
    assert cluster.times(1, ApiKey.LIST_PARTITION_REASSIGNMENTS) == 2


def test_a_broker_that_says_nothing_is_no_obstacle_to_asking_another(cluster: StandIns) -> None:
    cluster.silence(1)
    cluster.controller = 2
    with operations(cluster, 1, 2) as asked:
        assert asked.brokers.keys() == {1, 2, 3}


def test_when_all_say_nothing_the_time_that_was_given_is_all_that_is_waited(cluster: StandIns) -> None:
    for broker in (1, 2, 3):
        cluster.silence(broker)
    with pytest.raises(OperationError, match="no broker answers"):
        operations(cluster, timeout_s=0.2)


def test_a_broker_that_cannot_be_given_its_settings_is_named(cluster: StandIns) -> None:
    cluster.kill(2)
    with operations(cluster, 1) as asked, pytest.raises(OperationError, match="broker 2 does not answer"):
        asked.configure(BROKER, "2", {"leader.replication.throttled.rate": "1"})


def test_a_broker_that_is_only_listed_still_is_not_there(cluster: StandIns) -> None:
    cluster.alive = {1, 2}
    with operations(cluster, 1) as asked:
        assert asked.brokers.keys() == {1, 2}
