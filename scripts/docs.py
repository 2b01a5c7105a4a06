"""Write the pages of ``docs/`` that are made from the code. ``--check`` only says whether they are fresh."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.base.config import markdown
from ottla.keeper.config import INERT, UNMET, KeeperConfig
from ottla.keeper.metrics.page import page as metrics_page
from ottla.metadata.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigKey, no_effect
from ottla.metadata.configs.broker import CHANGED_ONLY

DOCS = Path(__file__).resolve().parent.parent / "docs"

KEEPER_CONFIG = """\
# The keeper's settings

Made from `src/ottla/keeper/config.py` by `make docs`; edit that file, not this page.

`ottla keeper FILE.cfg` reads ZooKeeper's own `zoo.cfg`. What ZooKeeper takes as a system property is a key here, with or
without its `zookeeper.` prefix: `-Dzookeeper.skipACL=yes` is `skipACL=yes` in the file, or `--set skipACL=yes` on the
command line, which goes before the file.

{table}
## Servers

An ensemble is listed by one line for each server, the same in every server's file; a server finds its own line by the
number in the file `myid` of its `dataDir`.

```
server.1=127.0.0.1:2888:3888
server.2=127.0.0.1:2889:3889:participant;127.0.0.1:2182
server.3=[::1]:2890:3890:observer
```

The first port carries the traffic of the quorum, the second one elections. `participant` (the default) votes,
`observer` does not. Behind the semicolon may stand the server's client address. `dynamicConfigFile` names a file with
these lines, as ZooKeeper 3.5 and later write it.

## From one server to three

A server without data does not vote, or it could outvote what one with data has acknowledged. So a server that becomes a
member of an ensemble whose other members are new waits for ever, and its log says so. To let one server grow:

1. Stop it.
2. Write the `server.N` lines into the files of all three, and `myid` into each `dataDir`.
3. Copy `version-2` of its `dataDir`, and of its `dataLogDir` if it has one, to one of the new servers: two of three hold the data then.
4. Start all three. The third takes the data over from the leader.

For five servers, copy it to two of the new ones. An ensemble that has a leader takes in a server without data by itself.

## Addresses

There is no access control yet. A listener without an address is a loopback listener, with a warning; any address that
other machines can reach is refused unless `--insecure` is given. Names other than `localhost` count as such.

## Accepted without effect

Each of these is warned of once. So is a key that is not known at all.

{inert}
## Refused

Each of these would be believed to protect something, or to say what the data means; `false` is accepted.

{unmet}"""


BROKER_CONFIG = """\
# The settings of brokers and topics

Made from `src/ottla/metadata/configs` by `make docs`; edit those files, not this page.

`ottla broker FILE.properties` reads Kafka's own `server.properties`. Names, types, defaults, bounds and the words of errors are
those of Apache Kafka 3.9.1. *Changed* says whether a setting can be changed while brokers run (`kafka-configs.sh`, or any admin
client), for all brokers at once or for one; such a change takes effect on every broker without a restart. Settings of topics
can all be changed.

Listeners that are changed are opened, closed and moved at once. The one between brokers stays where it is, and to move it is
refused: Kafka takes such a change, goes on to listen where it did, and tells everybody to come elsewhere.

Three settings are not Kafka's: with `ottla.metrics.port` (0 takes a free one), metrics are served in Prometheus form on
`ottla.metrics.host`, which is loopback unless it is given. `ottla.busy.poll.us` is how long a broker looks for the next request
before it sleeps, while that pays: 120 microseconds, or 0 for never ([why](adr/0009-staying-awake.md)).

## Brokers

{brokers}
## Given to brokers that run

{changed_only}
## Topics

{topics}
## Accepted without effect

Each of these is known, checked, stored and described, and changes nothing. A broker that finds one in its file says so.

{inert}"""


def settings_page() -> str:
    """Every setting: what it takes effect on, or why on nothing."""
    inert: dict[str, list[str]] = {}
    for name in dict.fromkeys((*BROKER_CONFIGS, *CHANGED_ONLY, *TOPIC_CONFIGS)):
        if (reason := no_effect(name)) is not None:
            inert.setdefault(reason, []).append(name)
    listed = "".join(
        f"- {reason[0].upper()}{reason[1:]}: {', '.join(f'`{name}`' for name in names)}.\n"
        for reason, names in inert.items()
    )
    return BROKER_CONFIG.format(
        brokers=_settings(BROKER_CONFIGS, shown=("Changed", lambda key: key.dynamic.value)),
        changed_only=_settings(CHANGED_ONLY, shown=("Changed", lambda key: key.dynamic.value)),
        topics=_settings(TOPIC_CONFIGS, shown=("From the broker's", _synonyms)),
        inert=listed,
    )


def _settings(keys: Mapping[str, ConfigKey], *, shown: tuple[str, Callable[[ConfigKey], str]]) -> str:
    rows = [f"| Key | Type | Default | {shown[0]} | Meaning |", "|---|---|---|---|---|"]
    for name, key in keys.items():
        if no_effect(name) is None:
            default = key.format(key.default)
            told = "not set" if default is None else f"`{default}`" if default else "empty"
            rows.append(f"| `{name}` | {key.type.name.lower()} | {told} | {shown[1](key)} | {key.doc} |")
    return "\n".join(rows) + "\n"


def _synonyms(key: ConfigKey) -> str:
    return ", ".join(f"`{synonym.name}`" for synonym in key.broker) or "-"


def pages() -> dict[Path, str]:
    """Every made page with its text."""
    inert = "".join(f"- `{key}{'*' if key[-1] in '._' else ''}`: {reason}.\n" for key, reason in INERT.items())
    unmet = "".join(f"- `{key}={value}`: {reason}.\n" for key, (value, reason) in UNMET.items())
    settings = KEEPER_CONFIG.format(table=markdown(KeeperConfig), inert=inert, unmet=unmet)
    return {
        DOCS / "broker-config.md": settings_page(),
        DOCS / "keeper-config.md": settings,
        DOCS / "keeper-metrics.md": metrics_page(),
    }


def main() -> int:
    """Write the pages, or with ``--check`` name those that are not fresh."""
    stale = [page for page, text in pages().items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for page in stale:
            print(f"{page.relative_to(DOCS.parent)} is not fresh: run make docs", file=sys.stderr)
        return bool(stale)
    for page in stale:
        page.write_text(pages()[page], encoding="utf-8")
        print(f"wrote {page.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
