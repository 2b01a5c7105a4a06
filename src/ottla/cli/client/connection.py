"""Which cluster a command speaks to, and what its errors mean to whoever called it.

A setting comes from the first of these that has it: the command line (``-b``, ``-X``, ``--client-config``), the environment
(``OTTLA_BOOTSTRAP``), the profile (``--profile`` or ``OTTLA_PROFILE``), the default. Exit codes: 0 done, 1 an error, 2 a command
line that cannot be, 3 not found, 130 interrupted.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import click

from ottla.base.errors import ConfigError, Error
from ottla.cli import options as shared
from ottla.cli.client import output as output_options
from ottla.cli.client.output import Output

if TYPE_CHECKING:
    # Loaded by the commands that use it, not by --help.
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient, ClusterMetadata

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP = "bootstrap.servers"
FAILED = 1
NOT_FOUND = 3
INTERRUPTED = 130

P = ParamSpec("P")
R = TypeVar("R")
_SLICE_S = 0.5
_JAAS = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ADDRESS = re.compile(r"(?:\w+://)?(?:\[[^\]]+\]|[^\s:,\[\]]+)(?::([0-9]+))?")
_OF_JAVA_ALONE = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")


class Failure(click.ClickException):
    """An error with its exit code; the message names the cause and, where there is one, the next step."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        # click declares it for the class, and reads it from the instance.
        self.exit_code = exit_code  # type: ignore[misc]
        context = click.get_current_context(silent=True)
        self._command = context.command_path if context else "ottla"

    def show(self, file: object = None) -> None:
        click.echo(f"{self._command}: {self.message}", err=True)


class Connection(NamedTuple):
    """A cluster that answered, and what it said of itself."""

    admin: AdminClient
    cluster: ClusterMetadata


class Target(NamedTuple):
    """A cluster, and how to speak to it."""

    settings: Mapping[str, str]
    timeout_s: float

    @property
    def bootstrap(self) -> str:
        return self.settings[BOOTSTRAP]

    def connect(self) -> Connection:
        """Brokers and topics, as soon as any broker tells; a failure as soon as it is plain that none will."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        heard: list[KafkaError] = []
        configuration = {**self.configuration(), "error_cb": heard.append}
        with refused_settings():
            admin = AdminClient(configuration)
        deadline = time.monotonic() + self.timeout_s
        while True:
            left = deadline - time.monotonic()
            try:
                return Connection(admin, admin.list_topics(timeout=max(min(left, _SLICE_S), 0.01)))
            except KafkaException as error:
                if error.args[0].name() not in _NO_CONNECTION:
                    raise
                admin.poll(0)
                if left <= 0 or any(found.name() == "_ALL_BROKERS_DOWN" for found in heard):
                    raise Failure(self._unreachable(heard)) from None

    def consumer(self, defaults: Mapping[str, object]) -> Consumer:
        """Every batch is held against its checksum: what is damaged is told of and not handed on."""
        from confluent_kafka import Consumer

        with refused_settings():
            return Consumer(self.configuration({"check.crcs": True, **defaults}))

    def producer(self, defaults: Mapping[str, object]) -> Producer:
        from confluent_kafka import Producer

        with refused_settings():
            return Producer(self.configuration(defaults))

    def configuration(self, defaults: Mapping[str, object] | None = None) -> dict[str, Any]:
        """What librdkafka is given. It keeps its log to itself unless it is asked to debug; what it waits for is told."""
        quiet = {} if "debug" in self.settings else {"log_level": "0"}
        return {**quiet, "client.id": "ottla", "error_cb": _Complaints(), **(defaults or {}), **self.settings}

    def _unreachable(self, heard: list[KafkaError]) -> str:
        told = [error.str() for error in heard if error.name() != "_ALL_BROKERS_DOWN"]
        reason = f": {told[-1]}" if told else f" within {self.timeout_s:g} s"
        return (
            f"no broker answers at {self.bootstrap}{reason}; is it running? "
            f"-b or OTTLA_BOOTSTRAP names another address, 'ottla status' shows what runs here"
        )


class _Complaints:
    """Why a client waits, on stderr, each reason once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, error: KafkaError) -> None:
        if error.name() not in self._told and error.name() != "_ALL_BROKERS_DOWN":
            self._told.add(error.name())
            click.echo(f"waiting: {explain(error)}", err=True)


def client_command(function: Callable[P, R]) -> Callable[..., R]:
    """The options of every client, which arrive as one ``target``, and its exit codes."""

    @functools.wraps(function)
    def command(
        *args: Any,
        bootstrap: str | None,
        x_settings: dict[str, str],
        client_config: Path | None,
        profile: str | None,
        timeout: float,
        **kwargs: Any,
    ) -> R:
        with exit_codes():
            settings = gather_settings(
                bootstrap=bootstrap,
                given=x_settings,
                client_config=client_config,
                profile=profile,
                environment=os.environ,
            )
            return function(*args, target=Target(settings, timeout), **kwargs)  # type: ignore[arg-type]

    made: Callable[..., R] = command
    for option in (
        click.option(
            "--timeout", metavar="S", type=click.FloatRange(0.1), default=10.0, help="Seconds to wait for an answer."
        ),
        click.option(
            "--profile", metavar="NAME", help="Settings of this name in ottla/config.toml; env OTTLA_PROFILE."
        ),
        click.option(
            "--client-config",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            help="Settings in a client.properties file.",
        ),
        shared.settings("-X", help="Give any librdkafka setting."),
        click.option(
            "-b",
            "--bootstrap",
            metavar="HOST:PORT,...",
            help=f"Brokers to start from; env OTTLA_BOOTSTRAP, else {DEFAULT_BOOTSTRAP}.",
        ),
    ):
        made = option(made)
    return made


def output_command(function: Callable[P, R]) -> Callable[..., R]:
    """The options of a command that prints rows, which arrive as one ``output``."""

    @functools.wraps(function)
    def command(*args: Any, form: str, as_json: bool, quiet: bool, **kwargs: Any) -> R:
        if as_json and form not in ("table", "json"):
            raise click.UsageError(f"--json and --format {form} exclude each other")
        return function(*args, output=Output("json" if as_json else form, quiet), **kwargs)  # type: ignore[arg-type]

    return output_options.options(command)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Errors of the client and of the system as one line, and Ctrl-C as 130."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except click.Abort as error:
        # Of a question: Ctrl-C, or nobody there to answer.
        if isinstance(error.__context__, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise Failure("there was no answer, so nothing was done") from None
    except Error as error:
        raise Failure(str(error)) from None
    except BrokenPipeError:
        raise  # nobody reads on, which is no error
    except OSError as error:
        _give_up_output()
        raise Failure(": ".join(filter(None, (error.filename, error.strerror or str(error))))) from None
    except Exception as error:
        if "confluent_kafka" not in sys.modules or not _is_kafka_exception(error):
            raise
        raise Failure(explain(error.args[0])) from None


def missing_topic(name: str, *, is_written: bool = False) -> Failure:
    """For a topic that is not there. Where it would have been written to, it may be wanted."""
    step = "'ottla topic ls' shows what there is"
    if is_written:
        step = f"'ottla topic create {name}' creates it, and so does --allow-auto-topic-creation where the brokers permit it"
    return Failure(f"no topic is called {name}; {step}", NOT_FOUND)


def _give_up_output() -> None:
    """What could not be written is not tried again at the end of the process."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def explain(error: KafkaError) -> str:
    """What a broker or librdkafka answered, with the next step where one is known."""
    step = _NEXT_STEPS.get(error.name())
    return f"{error.str()} ({error.name()})" + (f"; {step}" if step else "")


def wait(future: Future[R], timeout_s: float) -> R:
    """The answer to one request. Ctrl-C is heard while it is waited for."""
    try:
        return future.result(timeout=timeout_s)
    except FutureTimeoutError:
        raise Failure(f"no answer within {timeout_s:g} s; --timeout waits longer") from None


def gather_settings(
    *,
    bootstrap: str | None,
    given: Mapping[str, str],
    client_config: Path | None,
    profile: str | None,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Everything that is set, by its rank."""
    settings = {BOOTSTRAP: DEFAULT_BOOTSTRAP}
    if name := profile or environment.get("OTTLA_PROFILE"):
        settings |= _profile(name, environment)
    if address := environment.get("OTTLA_BOOTSTRAP"):
        settings[BOOTSTRAP] = address
    if client_config is not None:
        try:
            settings |= read_client_properties(client_config.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, ConfigError) as error:
            raise click.UsageError(f"--client-config {client_config}: {error}") from None
    settings |= given
    if bootstrap:
        settings[BOOTSTRAP] = bootstrap
    _check_bootstrap(settings[BOOTSTRAP])
    return settings


def _check_bootstrap(text: str) -> None:
    """What is no port, librdkafka would take for port 0."""
    addresses = [address.strip() for address in text.split(",") if address.strip()]
    for address in addresses or [text]:
        found = _ADDRESS.fullmatch(address)
        if found is None or not 0 < int(found[1] or 9092) <= 65535:
            raise click.UsageError(f"{address!r} is no broker's address: give HOST:PORT,...")


def read_client_properties(text: str) -> dict[str, str]:
    """Kafka's ``client.properties``, with what librdkafka calls by other names translated."""
    from ottla.base.properties import parse_properties

    settings = {key: value for key, value in parse_properties(text).items() if key not in _OF_JAVA_ALONE}
    jaas = settings.pop("sasl.jaas.config", "")
    for name, value in _JAAS.findall(jaas):
        settings[f"sasl.{name}"] = re.sub(r"\\(.)", r"\1", value)
    return settings


def _profile(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    import tomllib

    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "")) / ".config"
    file = Path(base) / "ottla" / "config.toml"
    try:
        profiles = tomllib.loads(file.read_text(encoding="utf-8")).get("profiles", {})
    except FileNotFoundError:
        raise Failure(f"profile {name}: there is no {file}", NOT_FOUND) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file}: {error}") from None
    if name not in profiles:
        raise Failure(f"profile {name}: {file} has {', '.join(profiles) or 'none'}", NOT_FOUND)
    return {key: str(value) for key, value in profiles[name].items()}


@contextmanager
def refused_settings() -> Iterator[None]:
    """A setting that librdkafka does not take is a mistake on the command line."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise click.UsageError(error.args[0].str()) from None


def _is_kafka_exception(error: Exception) -> bool:
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException)


_NO_CONNECTION = frozenset(("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"))
_NEXT_STEPS = {
    "_BAD_MSG": "the batch is damaged; 'ottla log verify' on the brokers that have the partition shows where",
    "_TRANSPORT": "a broker went away; 'ottla status' shows what runs here",
    "_TIMED_OUT": "--timeout waits longer",
    "_MSG_TIMED_OUT": "no leader took it in time; 'ottla topic describe' shows who leads",
    "INVALID_REPLICATION_FACTOR": "there must be as many brokers as replicas",
    "MSG_SIZE_TOO_LARGE": "the topic's max.message.bytes or -X message.max.bytes is smaller than this",
    "UNKNOWN_TOPIC_OR_PART": "'ottla topic ls' shows what there is",
    "TOPIC_ALREADY_EXISTS": "--if-not-exists takes it as it is",
}
