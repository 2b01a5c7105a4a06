from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.base.config import keys
from ottla.base.errors import ConfigError
from ottla.keeper.config import INERT, UNMET, KeeperConfig
from ottla.keeper.peers import Address

THREE = {f"server.{number}": f"127.0.0.1:{2888 + number}:{3888 + number}" for number in (1, 2, 3)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def load(
    data: Path, extra: dict[str, str] | None = None, /, *, insecure: bool = False, **settings: str
) -> KeeperConfig:
    """Read a zoo.cfg of a standalone server on a port of its own, with more settings."""
    lines = {"dataDir": str(data), "clientPort": "2181", "clientPortAddress": "127.0.0.1", **settings, **(extra or {})}
    file = data.parent / "zoo.cfg"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items() if value != "REMOVED"))
    return KeeperConfig.from_file(file, insecure=insecure)


def refusal(data: Path, extra: dict[str, str] | None = None, /, **settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(data, {**settings, **(extra or {})})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_standalone_server_needs_three_lines(data: Path) -> None:
    config = load(data)
    assert config.is_standalone
    assert not config.is_observer
    assert config.client_address == Address("127.0.0.1", 2181)
    assert config.data_log_dir == config.data_dir == data
    assert config.metrics_address is None
    assert config.my_id == 1
    assert config.warnings == ()


def test_defaults_are_those_of_zookeeper(data: Path) -> None:
    config = load(data)
    assert config.tick_time_ms == 3000
    assert (config.min_session_timeout_ms, config.max_session_timeout_ms) == (6000, 60_000)
    assert config.max_client_cnxns == 60
    assert config.snap_count == 100_000
    assert config.commit_log_count == 500
    assert config.global_outstanding_limit == 1000
    assert config.jute_max_buffer == 1_048_575
    assert config.four_letter_words == ("srvr",)
    assert not config.read_only_enabled
    assert not config.extended_types_enabled


def test_session_timeouts_follow_the_tick(data: Path) -> None:
    config = load(data, tickTime="500", maxSessionTimeout="9000")
    assert (config.min_session_timeout_ms, config.max_session_timeout_ms) == (1000, 9000)


def test_an_ensemble(data: Path) -> None:
    (data / "myid").write_text("2\n")
    config = load(data, {**THREE, "server.4": "127.0.0.1:9:10:observer"}, peerType="participant")
    assert not config.is_standalone
    assert config.my_id == 2
    assert (config.voters, config.observers, config.quorum_size) == ((1, 2, 3), (4,), 2)
    assert config.peers[2].election == Address("127.0.0.1", 3890)
    assert config.membership().splitlines()[3:] == ["server.4=127.0.0.1:9:10:observer", "version=0"]


@pytest.mark.parametrize(("voters", "quorum"), [(2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_quorum_is_a_majority(data: Path, voters: int, quorum: int) -> None:
    (data / "myid").write_text("1")
    servers = {f"server.{number}": f"127.0.0.1:{1000 + number}:{2000 + number}" for number in range(1, voters + 1)}
    assert load(data, servers).quorum_size == quorum


def test_an_observer(data: Path) -> None:
    (data / "myid").write_text("4")
    config = load(data, {**THREE, "server.4": "127.0.0.1:9:10:observer"})
    assert config.is_observer
    assert config.peer_type == "observer"


def test_the_server_line_decides_the_type_and_says_so(data: Path) -> None:
    (data / "myid").write_text("1")
    config = load(data, THREE, peerType="observer")
    assert config.peer_type == "participant"
    assert any("peerType=observer" in warning for warning in config.warnings)


def test_one_participant_is_standalone_unless_that_is_switched_off(data: Path) -> None:
    line = {"server.7": "127.0.0.1:2888:3888"}
    config = load(data, line)
    assert config.is_standalone
    assert config.my_id == 7
    (data / "myid").write_text("7")
    assert not load(data, line, standaloneEnabled="false").is_standalone


def test_the_client_port_may_stand_in_the_server_line(data: Path) -> None:
    (data / "myid").write_text("1")
    line = {**THREE, "server.1": "127.0.0.1:2889:3889;127.0.0.2:4444"}
    assert load(data, line, clientPort="REMOVED", clientPortAddress="REMOVED").client_address == ("127.0.0.2", 4444)
    assert load(data, line, clientPort="4444", clientPortAddress="REMOVED").client_address == ("127.0.0.2", 4444)
    assert "differs from 127.0.0.2:4444 in the line of server.1" in refusal(data, line)


def test_a_port_alone_in_the_server_line_means_loopback(data: Path) -> None:
    (data / "myid").write_text("1")
    line = {**THREE, "server.1": "127.0.0.1:2889:3889;4444"}
    config = load(data, line, clientPort="REMOVED", clientPortAddress="REMOVED")
    assert config.client_address == ("127.0.0.1", 4444)
    assert any("clientPortAddress is not set" in warning for warning in config.warnings)


def test_servers_may_stand_in_a_dynamic_file(data: Path) -> None:
    (data / "myid").write_text("3")
    dynamic = data.parent / "zoo.cfg.dynamic"
    dynamic.write_text("".join(f"{key}={value}\n" for key, value in THREE.items()))
    assert load(data, dynamicConfigFile=str(dynamic)).voters == (1, 2, 3)


@pytest.mark.parametrize("prefix", ["", "zookeeper."])
@pytest.mark.parametrize(
    ("key", "value", "attribute", "expected"),
    [
        ("readonlymode.enabled", "true", "read_only_enabled", True),
        ("DigestAuthenticationProvider.superDigest", "super:D/Ini=", "super_digest", "super:D/Ini="),
        ("extendedTypesEnabled", "true", "extended_types_enabled", True),
        ("skipACL", "yes", "skip_acl", True),
        ("leaderServes", "no", "leader_serves", False),
        ("snapCount", "10", "snap_count", 10),
        ("jute.maxbuffer", "4096", "jute_max_buffer", 4096),
        ("4lw.commands.whitelist", "stat, ruok", "four_letter_words", ("stat", "ruok")),
        ("preAllocSize", "0", "pre_alloc_kib", 0),
        ("snapshot.trust.empty", "true", "trust_empty_snapshot", True),
        ("maxCnxns", "7", "max_cnxns", 7),
        ("enforceQuota", "true", "enforce_quota", True),
    ],
)
def test_system_properties_are_keys_with_and_without_prefix(
    data: Path, prefix: str, key: str, value: str, attribute: str, expected: object
) -> None:
    config = load(data, {prefix + key: value})
    assert getattr(config, attribute) == expected
    assert config.warnings == ()


def test_an_override_wins_whatever_its_spelling(data: Path) -> None:
    load(data, {"zookeeper.snapCount": "10"})
    file = data.parent / "zoo.cfg"
    assert KeeperConfig.from_file(file, {"snapCount": "20"}).snap_count == 20
    load(data, {"snapCount": "10"})
    assert KeeperConfig.from_file(file, {"zookeeper.snapCount": "20"}).snap_count == 20


def test_two_spellings_with_two_values_are_refused(data: Path) -> None:
    assert "keep one of them" in refusal(data, {"snapCount": "10", "zookeeper.snapCount": "20"})


def test_unknown_and_inert_keys_warn_once_each(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load(
        data,
        {
            "no.such.key": "1",
            "admin.serverPort": "8080",
            "ssl.keyStore.location": "/x",
            "jvm.pause.monitor.run": "true",
        },
    )
    assert len(config.warnings) == 4
    with caplog.at_level(logging.WARNING):
        config.log_warnings(logging.getLogger("test"))
    assert [record.message for record in caplog.records] == list(config.warnings)
    assert "no.such.key is not a known setting: ignored" in config.warnings
    assert "ssl.keyStore.location has no effect here: there is no TLS" in config.warnings


def test_the_settings_of_kazoos_harness_are_accepted(data: Path) -> None:
    (data / "myid").write_text("1")
    servers = {f"server.{n}": f"localhost:{20000 + 10 * n}:{20001 + 10 * n}:participant" for n in (1, 2, 3)}
    properties = {
        **servers,
        "secureClientPort": "20004",
        "admin.serverPort": "20003",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "ssl.keyStore.password": "apassword",
        "maxClientCnxns": "0",
        "initLimit": "4",
        "syncLimit": "2",
        "peerType": "participant",
        "readonlymode.enabled": "true",
        "zookeeper.log.dir": "/x",
        "zookeeper.root.logger": "INFO,CONSOLE",
    }
    config = load(data, properties, clientPortAddress="REMOVED")
    assert config.read_only_enabled
    assert not any("not a known setting" in warning for warning in config.warnings)


@pytest.mark.parametrize(("key", "refused"), [(key, refused) for key, (refused, _) in UNMET.items()])
def test_what_would_be_believed_to_protect_is_refused(data: Path, key: str, refused: str) -> None:
    assert refusal(data, {key: "true"}).startswith(f"{key}=true: ")
    assert load(data, {key: "" if refused == "..." else "false"}).warnings == ()


@pytest.mark.parametrize(
    "key",
    [
        "request_throttle_max_requests",
        "connection_throttle_tokens",
        "largeRequestMaxBytes",
        "nio.numWorkerThreads",
        "observerMasterPort",
        "snapshot.compression.method",
        "SASLAuthenticationProvider.superPassword",
        "quorum.auth.learner.saslLoginContext",
    ],
)
def test_what_zookeeper_knows_is_known_with_the_reason_why_it_does_nothing(data: Path, key: str) -> None:
    (warning,) = load(data, {key: "1"}).warnings
    assert warning.startswith(f"{key} has no effect here: ")


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("SHA1", "sha1"), ("SHA-1", "sha1"), ("SHA-256", "sha256"), ("sha-512", "sha512"), ("SHA3-256", "sha3_256")],
)
def test_the_hash_of_passwords_goes_by_javas_names(data: Path, name: str, algorithm: str) -> None:
    assert load(data, {"DigestAuthenticationProvider.digestAlg": name}).digest_algorithm == algorithm


def test_digests_can_be_switched_off(data: Path) -> None:
    assert load(data, {"DigestAuthenticationProvider.enabled": "false"}).digest_algorithm is None


def test_minus_one_is_no_port_for_metrics_whatever_the_provider(data: Path) -> None:
    provider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
    settings = {"metricsProvider.className": provider, "metricsProvider.httpPort": "-1"}
    config = load(data, settings)
    assert config.metrics_address is None
    assert config.warnings == ()


def test_the_longest_tick_still_makes_a_session_timeout(data: Path) -> None:
    longest = (2**31 - 1) // 20
    assert load(data, tickTime=str(longest)).max_session_timeout_ms < 2**31
    assert refusal(data, tickTime=str(longest + 1)).startswith(f"tickTime={longest + 1}: must be a whole number from 1")


def test_keys_are_declared_refused_or_inert_but_only_once() -> None:
    declared = {key.name for _, key in keys(KeeperConfig)}
    assert not declared & INERT.keys()
    assert not declared & UNMET.keys()
    assert not INERT.keys() & UNMET.keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataDir": "REMOVED"}, "dataDir is not set: must be a path"),
        ({"clientPort": "REMOVED", "clientPortAddress": "REMOVED"}, "clientPort is not set: must be a whole number"),
        ({"clientPort": "REMOVED"}, "clientPortAddress is set but clientPort is not"),
        ({"clientPort": "70000"}, "clientPort=70000: must be a whole number from 0 to 65535"),
        ({"clientPort": "http"}, "clientPort=http: must be a whole number from 0 to 65535"),
        ({"tickTime": "0"}, "tickTime=0: must be a whole number from 1 to"),
        ({"initLimit": "0"}, "initLimit=0: must be a whole number of at least 1"),
        ({"syncLimit": "-1"}, "syncLimit=-1: must be a whole number of at least 1"),
        ({"minSessionTimeout": "9", "maxSessionTimeout": "8"}, "minSessionTimeout=9: must not be larger than"),
        ({"peerType": "leader"}, "peerType=leader: must be one of participant, observer"),
        ({"readonlymode.enabled": "maybe"}, "readonlymode.enabled=maybe: must be true or false"),
        ({"electionAlg": "1"}, "electionAlg=1: must be 3"),
        ({"standaloneEnabled": "false"}, "standaloneEnabled=false: must be true, or"),
        ({"group.1": "1:2:3"}, "group.1=1:2:3: every participant has one vote"),
        ({"weight.1": "1"}, "weight.1=1: every participant has one vote"),
        ({"server.1": "nonsense"}, "server.1=nonsense: must be host:quorumPort:electionPort"),
        ({"server.300": "127.0.0.1:1:2"}, "server.300: a server's number must be from 0 to 255"),
        ({"metricsProvider.httpPort": "2181"}, "metricsProvider.httpPort: 127.0.0.1:2181 is the address of clientPort"),
        ({"clientPortAddress": "0.0.0.0"}, "clientPort: 0.0.0.0:2181 can be reached from other machines"),
        (
            {"metricsProvider.httpPort": "1", "metricsProvider.httpHost": "::"},
            "metricsProvider.httpPort: [::]:1 can be",
        ),
    ],
)
def test_impossible_settings_are_refused_in_one_line(data: Path, settings: dict[str, str], message: str) -> None:
    assert refusal(data, settings).startswith(message)


@pytest.mark.parametrize(
    ("my_id", "settings", "message"),
    [
        (None, {}, "myid is missing: "),
        ("", {}, "myid=: "),
        ("two", {}, "myid=two: "),
        ("-1", {}, "myid=-1: "),
        ("4", {}, "myid=4: must be one of the server.N lines, which are 1, 2, 3"),
        (
            "1",
            {"server.2": "127.0.0.1:2889:3999"},
            "the quorum port of server.2: 127.0.0.1:2889 is the address of the quorum",
        ),
        (
            "1",
            {"server.2": "127.0.0.1:3889:3999"},
            "the quorum port of server.2: 127.0.0.1:3889 is the address of the elec",
        ),
        (
            "1",
            {"server.2": "127.0.0.1:2181:3999"},
            "the quorum port of server.2: 127.0.0.1:2181 is the address of clientPort",
        ),
        ("1", {"server.02": "127.0.0.1:5:6"}, "server.02: server 2 is given twice"),
        ("1", {"server.3": "10.1.2.3:2888:3888"}, "the quorum port of server.3: 10.1.2.3:2888 can be reached"),
        ("1", {"quorumListenOnAllIPs": "true"}, "quorumListenOnAllIPs=true: opens the quorum ports"),
        (
            "1",
            {"server.255": "127.0.0.1:5:6", "extendedTypesEnabled": "true"},
            "server.255: a server's number must be from 0 to 254",
        ),
    ],
)
def test_impossible_ensembles_are_refused_in_one_line(
    data: Path, my_id: str | None, settings: dict[str, str], message: str
) -> None:
    if my_id is not None:
        (data / "myid").write_text(my_id)
    assert refusal(data, {**THREE, **settings}).startswith(message)


def test_observers_without_participants_are_refused(data: Path) -> None:
    (data / "myid").write_text("1")
    lines = {"server.1": "127.0.0.1:1:2", "server.2": "127.0.0.1:3:4:observer"}
    assert refusal(data, lines).startswith("server.N: observers need participants")
    assert load(data, lines, standaloneEnabled="false").voters == (1,)


def test_other_addresses_need_insecure(data: Path) -> None:
    (data / "myid").write_text("1")
    lines = {**THREE, "server.3": "node3.example.org:2888:3888", "quorumListenOnAllIPs": "true"}
    config = load(data, lines, insecure=True, clientPortAddress="0.0.0.0")
    assert config.client_address == Address("0.0.0.0", 2181)


def test_no_address_means_loopback_even_when_insecure(data: Path) -> None:
    config = load(data, {"metricsProvider.httpPort": "0"}, insecure=True, clientPortAddress="REMOVED")
    assert config.client_host == config.metrics_host == "127.0.0.1"
    assert len(config.warnings) == 2


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({"metricsProvider.httpPort": "9100"}, ("127.0.0.1", 9100)),
        (
            {"metricsProvider.className": "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"},
            ("127.0.0.1", 7000),
        ),
        ({"metricsProvider.className": "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"}, None),
        ({"metricsProvider.httpPort": "9100", "metricsProvider.httpHost": "127.0.0.9"}, ("127.0.0.9", 9100)),
    ],
)
def test_metrics_are_served_when_asked_for(
    data: Path, settings: dict[str, str], address: tuple[str, int] | None
) -> None:
    assert load(data, settings).metrics_address == address


def test_too_few_snapshots_become_three(data: Path) -> None:
    config = load(data, {"autopurge.snapRetainCount": "1"})
    assert config.snap_retain_count == 3
    assert config.warnings == ("autopurge.snapRetainCount=1: 3 are kept",)


@pytest.mark.parametrize(
    ("count", "warned"), [(2, "survive no failure"), (4, "survive no more failures than 3"), (3, "")]
)
def test_unwise_numbers_of_servers_are_warned_of(data: Path, count: int, warned: str) -> None:
    (data / "myid").write_text("1")
    servers = {f"server.{number}": f"127.0.0.1:{1000 + number}:{2000 + number}" for number in range(1, count + 1)}
    assert warned in " ".join(load(data, servers).warnings)


def test_a_data_directory_is_not_made_by_reading_its_name(data: Path) -> None:
    folder = data / "new" / "er"
    assert load(data, dataDir=str(folder)).data_dir == folder
    assert not folder.exists()


@pytest.mark.parametrize("key", ["dataDir", "dataLogDir"])
def test_a_file_in_the_place_of_a_directory_is_refused(data: Path, key: str) -> None:
    (data / "file").write_text("")
    assert refusal(data, {key: f"{data}/file"}).startswith(f"{key}={data}/file: must be a folder")
    assert refusal(data, {key: f"{data}/file/sub"}).startswith(f"{key}={data}/file/sub: must be a folder")


def test_a_directory_that_cannot_be_written_to_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere, so this cannot be tried for real
    assert refusal(data).startswith(f"dataDir={data}: must be a folder that this user can write to")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^/no/such/zoo.cfg: cannot be read: No such file or directory$"):
        KeeperConfig.from_file("/no/such/zoo.cfg")


def test_the_super_digest_is_never_shown(data: Path) -> None:
    assert "super:secret" not in repr(load(data, {"DigestAuthenticationProvider.superDigest": "super:secret"}))


def test_an_embedded_keeper_needs_a_folder_and_a_port(data: Path) -> None:
    config = KeeperConfig(data_dir=data, client_port=0)
    assert config.is_standalone
    assert config.client_address == Address("127.0.0.1", 0)
    assert config.data_log_dir == data
    with pytest.raises(ConfigError, match="clientPort is not set"):
        KeeperConfig(data_dir=data)
    with pytest.raises(ConfigError, match="can be reached from other machines"):
        KeeperConfig(data_dir=data, client_port=0, client_host="0.0.0.0")
