"""Where settings come from, what errors mean, and what the commands refuse before they speak to anybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from ottla.cli.app import app
from ottla.cli.client.connection import BOOTSTRAP, Failure, exit_codes, gather_settings, read_client_properties

PROFILE = """
[profiles.prod]
"bootstrap.servers" = "prod:9092"
"security.protocol" = "SSL"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "config.toml").write_text(PROFILE)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def gathered(
    environment: dict[str, str],
    *,
    bootstrap: str | None = None,
    given: dict[str, str] | None = None,
    client_config: Path | None = None,
    profile: str | None = None,
) -> dict[str, str]:
    return gather_settings(
        bootstrap=bootstrap, given=given or {}, client_config=client_config, profile=profile, environment=environment
    )


def test_flag_before_environment_before_profile_before_default(environment: dict[str, str], tmp_path: Path) -> None:
    assert gathered({}) == {BOOTSTRAP: "127.0.0.1:9092"}
    assert gathered(environment, profile="prod") == {BOOTSTRAP: "prod:9092", "security.protocol": "SSL"}
    environment["OTTLA_PROFILE"] = "prod"
    assert gathered(environment)[BOOTSTRAP] == "prod:9092"
    environment["OTTLA_BOOTSTRAP"] = "env:9092"
    assert gathered(environment) == {BOOTSTRAP: "env:9092", "security.protocol": "SSL"}
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:9092\n")
    assert gathered(environment, client_config=file)[BOOTSTRAP] == "file:9092"
    assert gathered(environment, client_config=file, bootstrap="flag:9092")[BOOTSTRAP] == "flag:9092"
    assert gathered(environment, given={"security.protocol": "PLAINTEXT"})["security.protocol"] == "PLAINTEXT"


def test_a_profile_that_is_not_there(environment: dict[str, str]) -> None:
    with pytest.raises(Failure, match="has prod") as caught:
        gathered(environment, profile="test")
    assert caught.value.exit_code == 3
    with pytest.raises(Failure, match="there is no"):
        gathered({"XDG_CONFIG_HOME": "/nonexistent"}, profile="prod")


def test_kafkas_client_properties_are_translated() -> None:
    text = (
        "key.serializer=org.apache.kafka.StringSerializer\n"
        "sasl.mechanism=PLAIN\n"
        'sasl.jaas.config=org.apache.kafka.PlainLoginModule required username="me" password="a\\\\"b";\n'
    )
    assert read_client_properties(text) == {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'a"b'}


def test_ctrl_c_is_130() -> None:
    with pytest.raises(SystemExit) as caught, exit_codes():
        raise KeyboardInterrupt
    assert caught.value.code == 130


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied", "/proc/1/cwd"), "/proc/1/cwd: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("cannot be"), "cannot be"),
    ],
)
def test_what_the_system_refuses_is_a_line(error: OSError, told: str) -> None:
    with pytest.raises(Failure) as caught, exit_codes():
        raise error
    assert (caught.value.message, caught.value.exit_code) == (told, 1)


def test_a_pipe_that_is_closed_is_no_failure() -> None:
    with pytest.raises(BrokenPipeError), exit_codes():
        raise BrokenPipeError


@pytest.mark.parametrize("text", ["a", "a:9092", "a:9092,b:9093,", "[::1]:9092", "PLAINTEXT://a:9092, b", "10.0.0.1:1"])
def test_addresses_of_brokers(text: str) -> None:
    assert gathered({}, bootstrap=text)[BOOTSTRAP] == text


@pytest.mark.parametrize("text", [",", "a:port", "a:", "a:0", "a:99999", "a b:9092", "a:9092,:9092", "::1"])
def test_what_is_no_address_of_a_broker_is_refused(text: str) -> None:
    for source in ({"bootstrap": text}, {"environment": {"OTTLA_BOOTSTRAP": text}}, {"given": {BOOTSTRAP: text}}):
        with pytest.raises(click.UsageError, match="is no broker's address: give HOST:PORT"):
            gathered(**{"environment": {}, **source})  # type: ignore[arg-type]


def test_a_file_of_settings_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"client.id=\xff\n")
    with pytest.raises(click.UsageError, match=r"--client-config .*client\.properties: .*can't decode byte 0xff"):
        gathered({}, client_config=file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, prog_name="ottla")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["topic", "create"], "Missing argument"),
        (["topic", "create", "t", "-p", "0"], "0 is not in the range"),
        (["topic", "create", "t", "--config", "x"], "not of the form k=v"),
        (["topic", "create", "t", "--replica-assignment", "x"], "not of the form 1:2,2:3"),
        (["topic", "create", "t", "--replica-assignment", "1", "-r", "2"], "--replica-assignment says"),
        (["topic", "ls", "--json", "--format", "yaml"], "exclude each other"),
        (["produce", "t", "-f", "%k%v"], "says where %k ends"),
        (["produce", "t", "-f", "csv"], "neither lines nor jsonl"),
        (["produce", "t", "-f", "jsonl", "-K", ":"], "is for lines"),
        (["produce", "t", "-H", "=v"], "not of the form k=v"),
        (["produce", "t", "-t", "soon"], "neither milliseconds"),
        (["produce", "t", "x", "-i", "-"], "exclude each other"),
        (["produce", "t", "-i", "nosuch"], "'nosuch' does not exist"),
        (["topic", "ls", "-b", "localhost:nothing"], "'localhost:nothing' is no broker's address"),
        (["produce", "t", "x", "-o", "%q"], "no such verb"),
        (["consume", "t", "-o", "x"], "is no offset"),
        (["consume", "t", "-f", "%q"], "no such verb"),
        (["consume", "t", "-f", "xml"], "neither jsonl nor json"),
        (["log", "dump", ".", "--offsets", "x"], "not of the form FROM:TO"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_done(arguments: list[str], reason: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, reason in done.output) == (2, True), done.output


@pytest.mark.parametrize("command", ["topic", "produce", "consume", "log", "cat"])
def test_help_of_a_client_does_not_load_the_client(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ottla", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "confluent_kafka" not in done.stderr
    assert "rich" not in {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_clients_know_nothing_of_the_servers() -> None:
    program = (
        "import sys\n"
        "import ottla.cli.topic, ottla.cli.produce, ottla.cli.consume, ottla.cli.cat\n"
        "from ottla.cli.client import connection, consuming, producing, description\n"
        "print([name for name in sys.modules if name.startswith(('ottla.broker', 'ottla.keeper', 'ottla.registry'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_failure_names_the_command() -> None:
    @click.command("x")
    def command() -> None:
        raise Failure("it broke", 3)

    done = CliRunner().invoke(command, prog_name="ottla x")
    assert (done.exit_code, done.output) == (3, "ottla x: it broke\n")
