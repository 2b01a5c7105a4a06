"""Compared with what a real ZooKeeper 3.9.5 showed after the same life: see ``tests.compat.capture``."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ottla.keeper.metrics import monitor, render
from ottla.keeper.metrics.page import page
from ottla.keeper.metrics.table import METRICS
from ottla.keeper.monitored import mode_of
from ottla.keeper.proto.jute import put_buffer, put_int, put_string
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.server.stats import KEYS_MAX
from tests.unit.keeper.monitored_ensemble import CAPTURES, Ensemble, Person, Server, live, populated

MODES = ("standalone", "leader", "follower", "observer")
PAGE = Path(__file__).parents[3] / "docs" / "keeper-metrics.md"
LINE = re.compile(r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+)\})? (?P<value>\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
JAVAS = re.compile("jvm_(?!pause_time_ms)")
"""What the Java library for Prometheus adds about its JVM."""
SAMPLED = "ack_latency"
"""ZooKeeper measures one transaction in a thousand, so a short life shows none."""


def section(file: str, mode: str) -> list[str]:
    """The part of a capture about the server of that mode."""
    _, _, rest = (CAPTURES / file).read_text().partition(f"\n## {mode}\n")
    return [line for line in rest.split("\n## ")[0].splitlines() if line]


def families(lines: list[str]) -> dict[str, tuple[str, set[tuple[str, ...]]]]:
    """By name: the type, and the labels of its series, without the keys that clients choose."""
    found: dict[str, tuple[str, set[tuple[str, ...]]]] = {}
    name = ""
    for line in lines:
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            found[name] = (kind, set())
        elif not line.startswith("#"):
            parsed = LINE.fullmatch(line)
            assert parsed is not None, line
            assert parsed["name"].startswith(name)
            labels = [key if key == "key" else f"{key}={value}" for key, value in LABEL.findall(parsed["labels"] or "")]
            found[name][1].add((parsed["name"], *labels))
    return {name: family for name, family in found.items() if not JAVAS.match(name)}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Server]:
    return {mode: populated(tmp_path_factory.mktemp(mode), mode)[1] for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
def test_names_types_and_labels_are_zookeepers(lived: dict[str, Server], mode: str) -> None:
    ours = families(render(lived[mode]).splitlines())
    theirs = families(section("zookeeper-3.9.5-metrics.txt", mode))
    assert {name: kind for name, (kind, _) in ours.items()} == {name: kind for name, (kind, _) in theirs.items()}
    del ours[SAMPLED], theirs[SAMPLED]
    assert ours == theirs


@pytest.mark.parametrize("mode", MODES)
def test_keys_of_mntr_are_zookeepers(lived: dict[str, Server], mode: str) -> None:
    theirs = [line.split("\t")[0].removeprefix("zk_") for line in section("zookeeper-3.9.5-mntr.txt", mode)]
    ours = [key for key, _ in monitor(lived[mode])]
    # ZooKeeper writes its configuration by a transaction, and counts that among the writes to /zookeeper.
    theirs = [key for key in theirs if not re.search("_zookeeper_write_per_namespace$", key)]
    ours = [key for key in ours if not re.search(f"_[0-9]_{SAMPLED}$", key)]
    said_before = {"version", "server_state", "peer_state", "observer_master_id"}
    assert Counter(ours) == Counter(key for key in theirs if key not in said_before)


@pytest.mark.parametrize("mode", MODES)
def test_whole_numbers_and_fractions_are_where_zookeeper_has_them(lived: dict[str, Server], mode: str) -> None:
    theirs = dict(line.split("\t") for line in section("zookeeper-3.9.5-mntr.txt", mode))
    for key, value in monitor(lived[mode]):
        if f"zk_{key}" in theirs:
            assert ("." in theirs[f"zk_{key}"]) is isinstance(value, float), key


SAME = [
    "znode_count",
    "watch_count",
    "ephemerals_count",
    "global_sessions",
    "num_alive_connections",
    "outstanding_requests",
    "last_client_response_size",
    "min_client_response_size",
    "max_client_response_size",
    "response_bytes",
    "quorum_size",
    "learners",
    "synced_followers",
    "synced_observers",
    "synced_non_voting_followers",
    "pending_syncs",
    "last_proposal_size",
    "min_proposal_size",
    "max_proposal_size",
    "connection_request_count",
    "connection_rejected",
    "connection_drop_count",
    "connection_revalidate_count",
    "cnt_readlatency",
    "cnt_propagation_latency",
    "cnt_life-0_read_per_namespace",
    "cnt_life-0_write_per_namespace",
    "sum_life-0_write_per_namespace",
    "max_life-0_write_per_namespace",
]
IN_ENSEMBLES = [
    "proposal_count",
    "commit_count",
    "request_commit_queued",
    "learner_commit_received_count",
    "looking_count",
    "sync_processor_request_queued",
    "cnt_quorum_ack_latency",
    "cnt_commit_propagation_latency",
    "cnt_proposal_ack_creation_latency",
    "cnt_unavailable_time",
    "cnt_leader_unavailable_time",
    "cnt_follower_sync_time",
    "cnt_observer_sync_time",
]
OTHERWISE = {
    # ZooKeeper's observers learn of a transaction with its commit, ours with its proposal, and keep it as followers do.
    ("observer", "sync_processor_request_queued"),
    ("observer", "cnt_proposal_ack_creation_latency"),
    # A learner's sync is a commit there.
    ("follower", "request_commit_queued"),
    ("observer", "request_commit_queued"),
}


@pytest.mark.parametrize("mode", MODES)
def test_values_are_zookeepers_after_the_same_life(lived: dict[str, Server], mode: str) -> None:
    theirs = dict(line.removeprefix("zk_").split("\t") for line in section("zookeeper-3.9.5-mntr.txt", mode))
    ours = {key: str(value) for key, value in monitor(lived[mode])}
    for key in SAME if mode == "standalone" else SAME + IN_ENSEMBLES:
        if (mode, key) not in OTHERWISE:
            assert ours.get(key) == theirs.get(key), key


def test_the_size_of_the_data_is_zookeepers(lived: dict[str, Server]) -> None:
    theirs = dict(line.split("\t") for line in section("zookeeper-3.9.5-mntr.txt", "standalone"))
    assert dict(monitor(lived["standalone"]))["approximate_data_size"] == int(theirs["zk_approximate_data_size"])


def test_every_name_is_declared_once() -> None:
    assert max(Counter(metric.name for metric in METRICS).values()) == 1


@pytest.mark.parametrize("mode", MODES)
def test_prometheus_can_read_it(lived: dict[str, Server], mode: str) -> None:
    text = render(lived[mode])
    assert text.endswith("\n")
    series = []
    for line in text.splitlines():
        if not line.startswith("# "):
            parsed = LINE.fullmatch(line)
            assert parsed is not None, line
            float(parsed["value"])
            series.append(line.rpartition(" ")[0])
    assert len(series) == len(set(series))
    helps = [line.split(" ", 3) for line in text.splitlines() if line.startswith("# HELP")]
    assert all(len(parts) == 4 for parts in helps)


def test_a_server_that_looks_for_a_leader_has_metrics_too(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, 3)
    ensemble.stop(1)
    ensemble.stop(2)
    ensemble.run(10)
    server = ensemble.servers[3]
    assert mode_of(server) == "looking"
    assert "\nlooking_count 2.0\n" in render(server)
    assert "quorum_size" not in render(server)


def test_a_follower_that_dies_is_no_learner_any_more(tmp_path: Path) -> None:
    ensemble, server = populated(tmp_path, "leader")
    leader = server.config.my_id
    ensemble.stop(next(id_ for id_ in (1, 2, 3) if id_ != leader))
    values = dict(monitor(server))
    assert values["learners"] == 2
    assert values["synced_followers"] == 1
    assert values["synced_observers"] == 1


def test_uptimes_run(tmp_path: Path) -> None:
    ensemble, server = populated(tmp_path, "leader")
    before = dict(monitor(server))
    ensemble.run(2)
    after = dict(monitor(server))
    assert after["uptime"] - before["uptime"] == 2000
    assert after["leader_uptime"] - before["leader_uptime"] == 2000
    assert after["uptime"] > after["leader_uptime"]


def test_keys_that_clients_choose_are_escaped_and_have_an_end(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    server = ensemble.servers[1]
    person = Person(ensemble, server)
    assert person.create('/a"b\\c') == 0
    assert 'write_per_namespace_count{key="a\\"b\\\\c"} 1.0\n' in render(server)
    for number in range(2 * KEYS_MAX):
        server.member.stats.writes_by_namespace.add(str(number), 1)
    assert len(server.member.stats.writes_by_namespace.by_key) == KEYS_MAX


def test_quotas_are_shown_by_first_part_of_the_path(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, settings={"enforceQuota": "true"})
    server = ensemble.servers[1]
    person = Person(ensemble, server)
    for path in ("/app", "/app/one", "/zookeeper/quota/app", "/zookeeper/quota/app/one"):
        assert person.create(path) == 0
    limits = b"count=5,bytes=100=;byteHardLimit=200;countHardLimit=-1"
    assert person.create("/zookeeper/quota/app/one/zookeeper_limits", limits) == 0
    assert person.create("/zookeeper/quota/app/one/zookeeper_stats", b"count=0,bytes=0") == 0
    assert person.create("/app/one/two", bytes(50)) == 0
    values = dict(monitor(server))
    assert values["app_quota_count_limit_per_namespace"] == 5
    assert values["app_quota_bytes_limit_per_namespace"] == 200
    assert values["app_quota_count_usage_per_namespace"] == 2
    assert values["app_quota_bytes_usage_per_namespace"] == 50
    assert person.create("/app/one/three", bytes(500)) != 0
    assert dict(monitor(server))["app_quota_exceeded_error_per_namespace"] == 1
    assert 'quota_exceeded_error_per_namespace{key="app"} 1.0\n' in render(server)


def test_failed_authentications_and_dropped_connections_are_counted(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    server = ensemble.servers[1]
    server.rejected = 3
    body = bytearray()
    put_int(body, 0)
    put_string(body, "unheard of")
    put_buffer(body, b"")
    person = Person(ensemble, server)
    assert person.ask(OpCode.AUTH, body) != 0
    dropped = Person(ensemble, server)
    dropped.frontend.disconnected(dropped.client)
    closing = Person(ensemble, server)
    assert closing.ask(OpCode.CLOSE_SESSION) == 0
    closing.frontend.disconnected(closing.client)
    values = dict(monitor(server))
    assert values["auth_failed_count"] == 1
    assert values["connection_drop_count"] == 1
    assert values["connection_request_count"] == 3
    assert values["connection_rejected"] == 3


def test_sessions_that_expire_are_counted(tmp_path: Path) -> None:
    ensemble, server = populated(tmp_path, "leader")
    ensemble.run(30)
    values = dict(monitor(server))
    assert values["stale_sessions_expired"] == 4
    assert values["global_sessions"] == 0
    assert values["ephemerals_count"] == 0


def test_a_learner_that_comes_late_is_counted(tmp_path: Path) -> None:
    ensemble, server = populated(tmp_path, "leader")
    synced = dict(monitor(server))["diff_count"]
    follower = ensemble.of_mode("follower")
    network = ensemble.networks[follower.config.my_id]
    link = next(iter(network.links))
    ensemble.networks[network.links.pop(link)].links.pop(link)
    follower.member.on_link_down(link)
    server.member.on_link_down(link)
    ensemble.run(2)
    values = dict(monitor(server))
    assert values["diff_count"] == synced + 1
    assert values["snap_count"] == 0
    assert values["synced_followers"] == 2
    assert dict(monitor(follower))["looking_count"] == 2
    assert dict(monitor(follower))["cnt_follower_sync_time"] == 2


def test_watches_that_fire_are_counted(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    server = ensemble.servers[1]
    live(Person(ensemble, server), 0)
    writer = Person(ensemble, server)
    assert writer.set("/life-0", b"changed") == 0
    assert writer.create("/life-0/missing") == 0
    values = dict(monitor(server))
    assert values["sum_node_changed_watch_count"] == 1
    assert values["sum_node_created_watch_count"] == 1
    assert values["sum_node_children_watch_count"] == 1
    assert values["sum_node_deleted_watch_count"] == 0
    assert values["watch_count"] == 1


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"
