"""Which limit holds for whom.

A limit is set for a user, for a client id, for a client id of a user, or for an address; in the place of each name may stand
the default, which means whoever has no limit of his own. The most specific one holds:

    user and client    user and any client    user
    any user and client    any user and any client    any user
    client    any client

Whoever shares a limit shares what is used of it: all clients of a user that has one, unless they have their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.metadata.configs.definition import ConfigType
from ottla.metadata.znodes.configs import ConfigEntity

ANY: Final = "\0"
"""Stands for the default; nothing has this name."""
PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"
QUOTA_KEYS: Final = {
    PRODUCE: ConfigType.LONG,
    FETCH: ConfigType.LONG,
    REQUEST: ConfigType.DOUBLE,
    MUTATION: ConfigType.DOUBLE,
}
IP_KEYS: Final = {CONNECTION: ConfigType.INT}


class Entity(NamedTuple):
    """Who a limit is for; None where it does not matter, ``ANY`` for whoever has none of his own."""

    user: str | None
    client: str | None


def quotas_of(configs: Mapping[ConfigEntity, Mapping[str, str]], key: str) -> dict[Entity, float]:
    """Every limit of one kind that is set."""
    found = {}
    for entity, config in configs.items():
        who = entity_of(entity)
        if who is not None and (limit := _number(config.get(key))) is not None:
            found[who] = limit
    return found


def ip_quotas(configs: Mapping[ConfigEntity, Mapping[str, str]]) -> dict[str, float]:
    """How many connections a second each address may make; under ``ANY``, those that have no number of their own."""
    pairs = (
        (entity.name or ANY, _number(config.get(CONNECTION)))
        for entity, config in configs.items()
        if entity.kind == "ips"
    )
    return {address: limit for address, limit in pairs if limit is not None}


def entity_of(entity: ConfigEntity) -> Entity | None:
    match entity.kind:
        case "users":
            client = None if entity.client is None else entity.client.name or ANY
            return Entity(entity.name or ANY, client)
        case "clients":
            return Entity(None, entity.name or ANY)
        case _:
            return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None  # nobody who checks what he writes has written it


class Share(NamedTuple):
    """A limit, and the name under which what is used of it is added up."""

    entity: Entity
    limit: float


class Limits:
    """The limits of one kind, and a memory of who falls under which."""

    FOUND_MAX: Final = 10_000

    def __init__(self, limits: Mapping[Entity, float]) -> None:
        self._limits = dict(limits)
        self._found: dict[tuple[str, str], Share | None] = {}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client: str) -> Share | None:
        """What holds for a client of a user; None if nothing does."""
        key = (user, client)
        if key not in self._found:
            if len(self._found) >= self.FOUND_MAX:
                self._found.clear()  # names are made up by clients, and must not fill the memory
            self._found[key] = self._look(user, client)
        return self._found[key]

    def _look(self, user: str, client: str) -> Share | None:
        for asked, share in _candidates(user, client):
            limit = self._limits.get(asked)
            if limit is not None:
                return Share(share, limit)
        return None


def _candidates(user: str, client: str) -> Iterator[tuple[Entity, Entity]]:
    """Where to look, the strongest first, each with whose use is added up."""
    both, of_user, of_client = Entity(user, client), Entity(user, None), Entity(None, client)
    yield both, both
    yield Entity(user, ANY), both
    yield of_user, of_user
    yield Entity(ANY, client), both
    yield Entity(ANY, ANY), both
    yield Entity(ANY, None), of_user
    yield of_client, of_client
    yield Entity(None, ANY), of_client
