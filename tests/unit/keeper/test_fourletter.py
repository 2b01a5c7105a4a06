"""Compared with what a real ZooKeeper 3.9.5 answered after the same life: see ``tests.compat.capture``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla
from ottla.keeper import fourletter
from ottla.keeper.metrics import render
from ottla.keeper.proto.jute import put_buffer, put_int, put_string
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import Id
from ottla.keeper.server.acl import digest_of
from ottla.keeper.server.sessions import password_of
from tests.unit.keeper.monitored_ensemble import ALL_WORDS, CAPTURES, Ensemble, Outlet, Person, Server, populated

MODES = ("standalone", "leader", "follower", "observer")
ASKING = re.compile(r"^ /[^\[]+\[0\]\(queued=0,recved=1,sent=0\)\n|^\tip: \S+ sessionId: 0x0\n", re.MULTILINE)
"""The connection that asks: ZooKeeper lists it too."""
PARTS = (
    (re.compile(r"\d\.\d\.\d-\S+, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC"), "VERSION"),
    (re.compile(r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}"), "DATE"),
    (re.compile(r"(dataDir|dataLogDir)=.*"), r"\1=..."),
    (re.compile(r"0x[0-9a-f]+"), "0x#"),
    (re.compile(r"-?\d+\.\d+"), "#.#"),
    (re.compile(r"\d+"), "#"),
)


def asked(word: str, server: Server) -> str:
    answer = fourletter.answer(word, server)
    assert answer is not None
    return answer


def captured(mode: str, word: str) -> str:
    return ASKING.sub("", (CAPTURES / "zookeeper-3.9.5-4lw" / f"{mode}-{word}.txt").read_text())


def shape(text: str) -> list[str]:
    for part, name in PARTS:
        text = part.sub(name, text)
    return text.splitlines(keepends=True)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """By mode and word. As in the captures, the words that reset are asked last."""
    found: dict[str, dict[str, str]] = {}
    for mode in MODES:
        _, server = populated(tmp_path_factory.mktemp(mode), mode)
        found[mode] = {word: asked(word, server) for word in ALL_WORDS}
    return found


@pytest.mark.parametrize("word", sorted(set(ALL_WORDS) - {"mntr", "envi"}))
@pytest.mark.parametrize("mode", MODES)
def test_lines_have_the_shape_of_zookeepers(answers: dict[str, dict[str, str]], mode: str, word: str) -> None:
    ours, theirs = shape(answers[mode][word]), shape(captured(mode, word))
    if word in ("dump", "wchc", "wchp"):
        # The order of sets, and how many sessions expire at one time, are nobody's promise.
        ours, theirs = sorted(set(ours)), sorted(set(theirs))
    assert ours == theirs


@pytest.mark.parametrize("mode", MODES)
def test_figures_are_zookeepers_after_the_same_life(answers: dict[str, dict[str, str]], mode: str) -> None:
    ours, theirs = answers[mode]["srvr"].splitlines(), captured(mode, "srvr").splitlines()
    kept = ("Connections", "Outstanding", "Mode", "Node count", "Proposal sizes")
    assert [line for line in ours if line.startswith(kept)] == [line for line in theirs if line.startswith(kept)]
    assert answers[mode]["wchs"] == captured(mode, "wchs")


def test_envi_has_zookeepers_keys(answers: dict[str, dict[str, str]]) -> None:
    ours, theirs = answers["standalone"]["envi"].splitlines(), captured("standalone", "envi").splitlines()
    assert [re.sub("=.*", "", line) for line in ours] == [re.sub("=.*", "", line) for line in theirs]


def test_conf_says_where_the_server_really_is(tmp_path: Path) -> None:
    _, server = populated(tmp_path, "observer")
    log = tmp_path / "4" / "version-2" / "log.1"
    log.parent.mkdir()
    log.write_bytes(bytes(1000))
    conf = asked("conf", server).splitlines()
    assert "clientPort=13004" in conf
    assert f"dataDir={log.parent}" in conf
    assert "dataLogSize=1000" in conf
    assert "peerType=1" in conf
    assert conf[-2:] == ["server.4=127.0.0.1:14004:15004:observer", "version=0"]


def test_tools_find_zookeepers_version(tmp_path: Path) -> None:
    _, server = populated(tmp_path, "standalone")
    found = re.match(r"Zookeeper version: (\d+)\.(\d+)\.(\d+).*", asked("srvr", server))
    assert found is not None
    assert found.groups() == ("3", "9", "5")
    assert f"-ottla-{ottla.__version__}, built on 20" in found[0]
    assert asked("mntr", server).startswith(f"zk_version\t{fourletter.version()}\nzk_server_state\tstandalone\n")


def test_the_words_of_the_protocol_are_known() -> None:
    assert {*ALL_WORDS, "dirs", "gtmk", "hash", "stmk"} == fourletter.WORDS


def test_what_is_no_word_has_no_answer(tmp_path: Path) -> None:
    assert fourletter.answer("abcd", Ensemble(tmp_path).servers[1]) is None


def test_only_srvr_is_answered_by_default(tmp_path: Path) -> None:
    server = Ensemble(tmp_path, settings={"4lw.commands.whitelist": "srvr"}).servers[1]
    for word in ALL_WORDS:
        if word != "srvr":
            assert asked(word, server) == f"{word} is not executed because it is not in the whitelist.\n"
    assert asked("srvr", server).startswith("Zookeeper version")


def test_srvr_cannot_be_forbidden(tmp_path: Path) -> None:
    server = Ensemble(tmp_path, settings={"4lw.commands.whitelist": "ruok, isro"}).servers[1]
    assert asked("srvr", server).startswith("Zookeeper version")
    assert asked("ruok", server) == "imok"
    assert asked("isro", server) == "rw"
    assert "whitelist" in asked("mntr", server)


def test_without_a_quorum_there_is_little_to_say(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, 3)
    ensemble.stop(1)
    ensemble.stop(2)
    ensemble.run(10)
    server = ensemble.servers[3]
    assert asked("ruok", server) == "imok"
    assert asked("isro", server) == "null"
    assert asked("envi", server).startswith("Environment:\n")
    for word in set(ALL_WORDS) - {"ruok", "isro", "envi"}:
        assert asked(word, server) == "This ZooKeeper instance is not currently serving requests\n"


def test_a_server_without_a_quorum_may_serve_reads(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, 3, settings={"readonlymode.enabled": "true", "4lw.commands.whitelist": "dump"})
    ensemble.stop(1)
    ensemble.stop(2)
    ensemble.run(10)
    server = ensemble.servers[3]
    assert asked("isro", server) == "ro"
    lines = asked("srvr", server).splitlines()
    assert lines[1] == "READ-ONLY mode; serving only read-only clients"
    assert "Mode: read-only" in lines
    assert asked("dump", server).startswith("SessionTracker dump:\nGlobal Sessions(0):\n")


def test_words_are_packets_too(tmp_path: Path) -> None:
    server = Ensemble(tmp_path).servers[1]
    assert "Received: 1\nSent: 0\n" in asked("srvr", server)
    assert "Received: 2\nSent: 1\n" in asked("srvr", server)


def test_srst_and_crst_set_back(tmp_path: Path) -> None:
    ensemble, server = populated(tmp_path, "leader")
    leader_since = server.member.stats.serving_since_ms
    assert asked("srst", server) == "Server stats reset.\n"
    srvr = asked("srvr", server)
    assert "Latency min/avg/max: 0/0.0/0\nReceived: 1\nSent: 1\n" in srvr
    assert "Proposal sizes last/min/max: -1/-1/-1\n" in srvr
    assert server.member.stats.serving_since_ms == leader_since
    assert "recved=18" in asked("cons", server)
    assert asked("crst", server) == "Connection stats reset.\n"
    cons = asked("cons", server)
    assert "recved=0,sent=0" in cons
    assert "lop=NA" in cons
    assert "lcxid" not in cons
    person = Person(ensemble, server)
    assert person.create("/after") == 0
    assert "Latency min/avg/max: 1/1.0/1\n" in asked("srvr", server)


def test_no_secret_is_ever_shown(tmp_path: Path) -> None:
    secret = digest_of("super:open sesame")
    ensemble = Ensemble(tmp_path, settings={"DigestAuthenticationProvider.superDigest": secret})
    server = ensemble.servers[1]
    person = Person(ensemble, server)
    body = bytearray()
    put_int(body, 0)
    put_string(body, "digest")
    put_buffer(body, b"somebody:password")
    assert person.ask(OpCode.AUTH, body) == 0
    said = "".join(asked(word, server) for word in ALL_WORDS) + render(server)
    hidden = [secret, secret.partition(":")[2], digest_of("somebody:password").partition(":")[2], "password"]
    hidden.append(password_of(person.client.session_id).hex())
    for text in hidden:
        assert text not in said


def test_ipv6_clients_are_told_apart_from_their_port(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    server = ensemble.servers[1]
    client = server.member.frontend.connected(Outlet(), "::1", 4711)
    assert client.ids == (Id("ip", "0:0:0:0:0:0:0:1"),)
    assert " /[0:0:0:0:0:0:0:1]:4711[1](queued=0" in asked("cons", server)
    assert "ip: /[0:0:0:0:0:0:0:1]:4711 sessionId: 0x0" in asked("dump", server)


def test_dirs_says_how_large_they_are(tmp_path: Path) -> None:
    server = Ensemble(tmp_path).servers[1]
    log = server.config.data_dir / "version-2" / "log.1"
    log.parent.mkdir()
    log.write_bytes(bytes(1000))
    assert asked("dirs", server) == "datadir_size: 1000\nlogdir_size: 1000\n"


def test_hash_tells_the_digest_of_every_128th_transaction(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    server = ensemble.servers[1]
    person = Person(ensemble, server)
    assert asked("hash", server) == ""
    tree, digests = server.member.frontend.tree, {}
    for number in range(300):
        assert person.create(f"/n{number}") == 0
        digests[tree.last_zxid] = tree.digest
    due = [0x100000080, 0x100000100]
    assert asked("hash", server) == "".join(f"{zxid:x}: {digests[zxid]}\n" for zxid in due)


def test_the_trace_mask_is_the_one_that_was_set(tmp_path: Path) -> None:
    server = Ensemble(tmp_path).servers[1]
    assert asked("gtmk", server) == "306"
    assert fourletter.answer("stmk", server, (-7).to_bytes(8, "big", signed=True)) == "-7"
    assert fourletter.answer("stmk", server, b"short") == "-7"
    assert asked("gtmk", server) == "-7"
