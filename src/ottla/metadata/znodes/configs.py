"""``/config/KIND/NAME``: settings that were changed while running; ``/config/changes/…``: the news of each change.

    topics/T    brokers/N    brokers/<default>    ips/A    clients/C    users/U    users/U/clients/C

Names of users and clients are percent-encoded, since they may hold anything. ``<default>`` stands for all that have no
settings of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from ottla.metadata.documents import Document, encode
from ottla.metadata.errors import ZnodeError
from ottla.metadata.hashorder import properties_order
from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes import paths

DEFAULT_NAME: Final = "<default>"
KINDS: Final = ("topics", "clients", "users", "brokers", "ips")
_ENCODED_KINDS: Final = frozenset({"users", "clients"})
_CHANGE_VERSION: Final = 2


class ConfigEntity(NamedTuple):
    """Whose settings: a kind and a name, None for the default; for a client of a user, the user's come first."""

    kind: str
    name: str | None
    client: ConfigClient | None = None

    @property
    def entity_path(self) -> str:
        """The path below ``/config``, as the notifications spell it."""
        own = _part(self.kind, self.name)
        return own if self.client is None else f"{own}/{_part('clients', self.client.name)}"

    @property
    def path(self) -> str:
        return f"{paths.CONFIG}/{self.entity_path}"


class ConfigClient(NamedTuple):
    """A client of one user; None for every client."""

    name: str | None


def topic_entity(name: str) -> ConfigEntity:
    return ConfigEntity("topics", name)


def broker_entity(broker_id: BrokerId | None) -> ConfigEntity:
    """One broker's settings, or with None those of all brokers."""
    return ConfigEntity("brokers", None if broker_id is None else str(broker_id))


def sanitize(name: str) -> str:
    """A name as part of a path: percent-encoded, and safe in the name of a metric too."""
    return quote(name, safe="").replace("~", "%7E")


def parse_entity_path(entity_path: str) -> ConfigEntity:
    """The entity that ``entity_path`` (below ``/config``) belongs to."""
    match entity_path.split("/"):
        case [kind, name] if kind in KINDS and name:
            return ConfigEntity(kind, _name(kind, name))
        case ["users", user, "clients", client] if user and client:
            return ConfigEntity("users", _name("users", user), ConfigClient(_name("clients", client)))
        case _:
            raise ZnodeError(f"{entity_path!r}: is not the path of anything that has settings")


def encode_config(config: Mapping[str, str]) -> bytes:
    return encode({"version": 1, "config": properties_order(config)})


def decode_config(entity: ConfigEntity, data: bytes | None) -> dict[str, str]:
    if not data:
        return {}
    document = Document.parse(entity.path, data)
    document.version(1)
    return document.text_members("config")


def encode_config_change(entity: ConfigEntity) -> bytes:
    return encode({"version": _CHANGE_VERSION, "entity_path": entity.entity_path})


def decode_config_change(path: str, data: bytes | None) -> ConfigEntity:
    document = Document.parse(path, data)
    if document.version(1, _CHANGE_VERSION) == 1:
        kind = document.text("entity_type")
        if kind not in {"topics", "clients"}:
            raise ZnodeError(f"{path}: entity_type must be topics or clients, and is {kind!r}")
        return parse_entity_path(f"{kind}/{document.text('entity_name')}")
    return parse_entity_path(document.text("entity_path"))


def _part(kind: str, name: str | None) -> str:
    if name is None:
        return f"{kind}/{DEFAULT_NAME}"
    return f"{kind}/{sanitize(name) if kind in _ENCODED_KINDS else name}"


def _name(kind: str, written: str) -> str | None:
    if written == DEFAULT_NAME:
        return None
    return unquote(written) if kind in _ENCODED_KINDS else written
