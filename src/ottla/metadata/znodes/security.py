"""Access rules and delegation tokens.

/kafka-acl/TYPE/NAME                        the rules for the resource of exactly this name
/kafka-acl-extended/prefixed/TYPE/NAME      the rules for all resources whose names begin so (KIP-290)
/kafka-acl-changes/acl_changes_N            the news of a change, as ``TYPE:NAME``
/kafka-acl-extended-changes/acl_changes_N   the same for prefixes, as JSON
/delegation_token/tokens/ID                 a token without its secret, which follows from the master key
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from ottla.metadata.documents import Document, encode
from ottla.metadata.errors import ZnodeError
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.configs import sanitize

RESOURCE_TYPES: Final = {
    "TOPIC": "Topic",
    "GROUP": "Group",
    "CLUSTER": "Cluster",
    "TRANSACTIONAL_ID": "TransactionalId",
    "DELEGATION_TOKEN": "DelegationToken",
    "USER": "User",
}
"""Kafka's name of each type of resource, and its spelling in paths."""
PERMISSIONS: Final = frozenset({"Allow", "Deny"})
ACL_ROOTS: Final = ("/kafka-acl", "/kafka-acl-extended/prefixed")
ACL_CHANGE_ROOTS: Final = ("/kafka-acl-changes", "/kafka-acl-extended-changes")
ACL_PERSISTENT: Final = (
    *(f"{root}/{kind}" for root in ACL_ROOTS for kind in RESOURCE_TYPES.values()),
    *ACL_CHANGE_ROOTS,
)
"""What a broker with an authorizer makes at its start."""

_CHANGE_PREFIX: Final = "acl_changes_"


class ResourcePattern(NamedTuple):
    """A resource by its name, or all whose names begin with it."""

    resource_type: str
    name: str
    prefixed: bool = False

    @property
    def path(self) -> str:
        return f"{ACL_ROOTS[self.prefixed]}/{RESOURCE_TYPES[self.resource_type]}/{self.name}"

    @property
    def change_prefix(self) -> str:
        """Where the news of a change is created, as a sequential node."""
        return f"{ACL_CHANGE_ROOTS[self.prefixed]}/{_CHANGE_PREFIX}"


class AclEntry(NamedTuple):
    """Who may, or may not, do what from where."""

    principal: str
    permission_type: str
    host: str
    operation: str


class DelegationToken(NamedTuple):
    """A token that stands for its owner until it expires (KIP-48, KIP-373)."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


def encode_acls(acls: Iterable[AclEntry]) -> bytes:
    listed = [
        {
            "principal": acl.principal,
            "permissionType": acl.permission_type,
            "host": acl.host,
            "operation": acl.operation,
        }
        for acl in acls
    ]
    return encode({"acls": listed, "version": 1})


def decode_acls(resource: ResourcePattern, data: bytes | None) -> tuple[AclEntry, ...]:
    if not data:
        return ()
    document = Document.parse(resource.path, data)
    document.version(1)
    return tuple(map(_acl, document.documents("acls")))


def encode_acl_change(resource: ResourcePattern) -> bytes:
    if not resource.prefixed:
        return f"{resource.resource_type}:{resource.name}".encode()
    return encode(
        {"version": 1, "resourceType": resource.resource_type, "name": resource.name, "patternType": "PREFIXED"}
    )


def decode_acl_change(path: str, data: bytes | None) -> ResourcePattern:
    if path.startswith(ACL_CHANGE_ROOTS[True]):
        document = Document.parse(path, data)
        document.version(1)
        if (pattern := document.text("patternType")) != "PREFIXED":
            raise ZnodeError(f"{path}: patternType must be PREFIXED, and is {pattern!r}")
        return ResourcePattern(_type(path, document.text("resourceType")), document.text("name"), prefixed=True)
    kind, separator, name = (data or b"").decode("utf-8", "replace").partition(":")
    if not separator:
        raise ZnodeError(f"{path}: must hold TYPE:NAME, and holds {data!r}")
    return ResourcePattern(_type(path, kind), name)


def encode_token(token: DelegationToken) -> bytes:
    return encode(
        {
            "issueTimestamp": token.issue_timestamp_ms,
            "renewers": [sanitize(renewer) for renewer in token.renewers],
            "tokenRequester": sanitize(token.requester),
            "tokenId": token.token_id,
            "owner": sanitize(token.owner),
            "expiryTimestamp": token.expiry_timestamp_ms,
            "maxTimestamp": token.max_timestamp_ms,
            "version": 3,
        }
    )


def decode_token(token_id: str, data: bytes | None) -> DelegationToken:
    document = Document.parse(paths.delegation_token(token_id), data)
    document.version(1, 2, 3)
    owner = unquote(document.text("owner"))
    return DelegationToken(
        document.text("tokenId"),
        owner,
        # Before version 3 nobody could ask for a token but its owner.
        unquote(document.text("tokenRequester")) if "tokenRequester" in document else owner,
        tuple(map(unquote, document.texts("renewers"))),
        document.integer("issueTimestamp"),
        document.integer("expiryTimestamp"),
        document.integer("maxTimestamp"),
    )


def _acl(document: Document) -> AclEntry:
    acl = AclEntry(
        document.text("principal"),
        document.text("permissionType"),
        document.text("host"),
        document.text("operation"),
    )
    if acl.permission_type not in PERMISSIONS:
        raise ZnodeError(f"{document.path}: permissionType must be Allow or Deny, and is {acl.permission_type!r}")
    return acl


def _type(path: str, written: str) -> str:
    """The type as Kafka names it; writers of old used the spelling of paths."""
    for name, in_paths in RESOURCE_TYPES.items():
        if written in {name, in_paths}:
            return name
    raise ZnodeError(f"{path}: {written!r} is not a type of resource")
