from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli import clusteradmin
from ottla.cli.client import operating
from ottla.cli.client.operating import BROKER, TOPIC
from ottla.wire import ErrorCode

from .client.standins import StandIns


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIns]:
    monkeypatch.setattr(operating, "_PATIENCE_S", 0.05)
    with StandIns(1, 2, 3).running() as running:
        yield running


def test_health_tells_of_a_controller_that_says_nothing_and_of_the_rest(cluster: StandIns) -> None:
    cluster.partitions = [(2, [2, 3], [2, 3]), (-1, [3, 2], [3])]
    cluster.silence(1)
    words = ["health", "-b", cluster.bootstrap(3), "--timeout", "0.3", "--format", "jsonl"]
    done = CliRunner().invoke(clusteradmin.command, words)
    assert done.exit_code == 1
    assert '{"what": "broker 1", "problem": "is the controller and does not answer"}' in done.output
    assert '{"what": "t-1", "problem": "nobody leads it"}' in done.output


def test_the_way_back_from_a_move_under_way_lacks_what_the_move_adds(cluster: StandIns, tmp_path: Path) -> None:
    cluster.partitions = [(1, [2, 3, 1], [1])]
    cluster.adding = {0: [2, 3]}
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}')
    words = ["reassign", "execute", str(plan), "-b", cluster.bootstrap(1)]
    done = CliRunner().invoke(clusteradmin.command, words)
    assert done.exit_code == 0, done.output
    assert '"partition": 0, "replicas": [1]}' in done.output


def test_a_drain_during_a_move_plans_from_where_the_move_goes() -> None:
    with StandIns(1, 2, 3, 4, 5).running() as cluster:
        cluster.partitions = [(1, [1, 2, 4, 3], [1, 2, 3])]
        cluster.adding, cluster.removing = {0: [4]}, {0: [3]}

        def run(*words: str) -> str:
            done = CliRunner().invoke(clusteradmin.command, [*words, "-b", cluster.bootstrap(1)])
            assert done.exit_code == 0, done.output
            return done.output

        assert '"replicas": [1, 5, 4]}' in run("drain", "2", "--dry-run")
        assert '"partitions": []' in run("drain", "3", "--dry-run")
        assert run("drain", "3") == "1 partitions are on their way from broker 3 already\n"
        assert '"partitions": []' in run("reassign", "generate", "t", "-r", "3")
        assert '"replicas": [1, 2]}' in run("reassign", "generate", "t", "-r", "2")


def test_a_plan_for_fewer_replicas_gives_up_who_is_away_or_behind(cluster: StandIns) -> None:
    cluster.alive = {1, 3}
    cluster.partitions = [(1, [2, 3, 1], [1]), (3, [1, 3], [3])]
    words = ["reassign", "generate", "t", "-r", "1", "-b", cluster.bootstrap(1)]
    done = CliRunner().invoke(clusteradmin.command, words)
    assert json.loads(done.output)["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [1]},
        {"topic": "t", "partition": 1, "replicas": [3]},
    ]


LIMITED = {"leader.replication.throttled.rate": "7", "follower.replication.throttled.rate": "7"}


def execute(cluster: StandIns, tmp_path: Path, *plan: list[int]) -> Result:
    entries = [{"topic": "t", "partition": number, "replicas": replicas} for number, replicas in enumerate(plan)]
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": entries}))
    words = ["reassign", "execute", str(tmp_path / "plan.json"), "--throttle", "7", "-b", cluster.bootstrap(1)]
    return CliRunner().invoke(clusteradmin.command, words)


def test_a_plan_with_a_broker_that_there_is_not_throttles_nothing(cluster: StandIns, tmp_path: Path) -> None:
    cluster.partitions = [(1, [1, 2, 8], [1, 2])]
    done = execute(cluster, tmp_path, [1, 8, 9])
    assert (done.exit_code, done.output) == (3, "cluster reassign execute: there is no broker 9\n")
    assert cluster.settings == {}
    assert execute(cluster, tmp_path, [1, 8, 3]).exit_code == 0


def test_moves_that_are_all_refused_leave_throttles_as_they_were(cluster: StandIns, tmp_path: Path) -> None:
    cluster.partitions = [(1, [1], [1]), (1, [1], [1])]
    before: dict[tuple[int, str], dict[str, str]] = {
        (TOPIC, "t"): {"leader.replication.throttled.replicas": "5:1"},
        (BROKER, "1"): {"leader.replication.throttled.rate": "100"},
    }
    cluster.settings = deepcopy(before)
    cluster.refused = dict.fromkeys((0, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    done = execute(cluster, tmp_path, [2], [2])
    assert done.exit_code == 1
    assert "t-1: INVALID_REPLICA_ASSIGNMENT" in done.output
    assert {name: each for name, each in cluster.settings.items() if each} == before


def test_moves_that_began_stay_throttled_though_others_were_refused(cluster: StandIns, tmp_path: Path) -> None:
    cluster.partitions = [(1, [1], [1]), (1, [1], [1])]
    cluster.refused = {1: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert execute(cluster, tmp_path, [2], [2]).exit_code == 1
    assert cluster.settings[BROKER, "2"] == LIMITED
    assert cluster.settings[TOPIC, "t"]["follower.replication.throttled.replicas"] == "0:2,1:2"


def batch(content: bytes) -> bytes:
    """As much of one as is looked at: offset 0, the length, and a last offset delta of 0."""
    rest = bytes(24) + content
    return bytes(8) + len(rest).to_bytes(4) + rest


@pytest.mark.parametrize(
    ("alive", "at_2", "compared", "status"),
    [
        ({1, 2, 3}, b"same", 1, "the same"),
        ({1, 2}, b"same", 1, "broker 3 is away; the others agree"),
        ({1, 2}, b"else", 0, "broker 3 is away; at offset 0: broker 1 and broker 2 differ"),
        ({1}, b"same", 0, "broker 2 is away; broker 3 is away"),
    ],
)
def test_the_replicas_that_are_there_are_compared(
    cluster: StandIns, alive: set[int], at_2: bytes, compared: int, status: str
) -> None:
    cluster.alive = alive
    cluster.partitions = [(1, [1, 2, 3], [1, 2])]
    cluster.logs = {1: batch(b"same"), 2: batch(at_2), 3: batch(b"same")}
    words = ["verify-replicas", "t", "-b", cluster.bootstrap(1), "--format", "jsonl"]
    done = CliRunner().invoke(clusteradmin.command, words)
    assert json.loads(done.output) == {"name": "t-0", "compared": compared, "status": status}
    assert done.exit_code == (status != "the same")
