"""Access control: who may do what to a znode.

An ACL is a tuple of (perms, scheme, id). A client carries *ids*, pairs of scheme and id: its address from the
start, and one more for every successful ``addAuth``. The schemes are ZooKeeper's defaults:

    world   only ``anyone``
    auth    at creation, stands for the ids the creator has proved
    digest  ``user:base64(sha1(user:password))``, with another hash where the settings name one, or not at all
    ip      an address or a prefix of bits, ``10.0.0.0/8``, read as strictly as ZooKeeper reads it
    super   held by whoever proves the configured super digest; passes every check

ACLs are not inherited. An ACL check on a tuple that is empty passes, as in ZooKeeper.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ottla.keeper.proto.errors import ErrorCode, KeeperError, MarshallingError
from ottla.keeper.proto.opcodes import Perms
from ottla.keeper.proto.records import ACL, NULL_ID, OPEN_ACL_UNSAFE, Id

READ_ACL_UNSAFE: tuple[ACL, ...] = (ACL(Perms.READ.value, "world", "anyone"),)
SUPER: Final = Id("super", "")
_DIGITS: Final = "0123456789abcdef"


def allowed(acl: tuple[ACL, ...], perm: int, ids: Sequence[Id]) -> bool:
    """True if one of ``ids`` has one of the permissions in ``perm``."""
    if acl is OPEN_ACL_UNSAFE or not acl:
        return True
    if any(held.scheme == "super" for held in ids):
        return True
    for entry in acl:
        if not entry.perms & perm:
            continue
        if entry.scheme == "world":
            if entry.id == "anyone":
                return True
        elif any(held.scheme == entry.scheme and _matches(entry.scheme, held.id, entry.id) for held in ids):
            return True
    return False


def require(acl: tuple[ACL, ...], perm: int, ids: Sequence[Id]) -> None:
    if not allowed(acl, perm, ids):
        raise KeeperError(ErrorCode.NO_AUTH)


def fixup(acl: Sequence[ACL] | None, ids: Sequence[Id], *, digests: bool = True) -> tuple[ACL, ...]:
    """The ACL to store: duplicates gone, ``auth`` replaced by the proved ids, anything unknown refused.

    Without ``digests``, that scheme is unknown too.
    """
    if acl is OPEN_ACL_UNSAFE:
        return OPEN_ACL_UNSAFE
    fixed: list[ACL] = []
    for entry in dict.fromkeys(acl or ()):
        if entry.id == NULL_ID and entry.scheme in ("world", "digest", "ip"):
            raise MarshallingError(f"a null id of scheme {entry.scheme}")
        if entry.scheme == "world" and entry.id == "anyone":
            fixed.append(entry)
        elif entry.scheme == "auth":
            proved = [ACL(entry.perms, held.scheme, held.id) for held in ids if held.scheme == "digest"]
            if not proved:
                raise KeeperError(ErrorCode.INVALID_ACL, "the auth scheme needs an authenticated client")
            fixed += proved
        elif (digests or entry.scheme != "digest") and _is_valid(entry.scheme, entry.id):
            fixed.append(entry)
        else:
            raise KeeperError(ErrorCode.INVALID_ACL, f"invalid ACL {entry.scheme}:{entry.id}")
    if not fixed:
        raise KeeperError(ErrorCode.INVALID_ACL, "an empty ACL")
    return tuple(fixed)


def masked(acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
    """The ACL as clients without ADMIN see it: digests hidden (CVE-2019-0201)."""
    return tuple(
        ACL(entry.perms, entry.scheme, entry.id.partition(":")[0] + ":x")
        if entry.scheme == "digest" and ":" in entry.id
        else entry
        for entry in acl
    )


def digest_of(credentials: str, algorithm: str = "sha1") -> str:
    """The id that proves ``user:password``. SHA-1 is what the stored ACLs of a ZooKeeper hold unless it was told else."""
    user = credentials.partition(":")[0]
    return f"{user}:{b64encode(hashlib.new(algorithm, credentials.encode()).digest()).decode()}"


def authenticate(
    scheme: str, auth: bytes | None, address: str, super_digest: str | None, algorithm: str | None
) -> list[Id]:
    """The ids an ``addAuth`` packet earns; empty if it earns none and the connection must end.

    No ``algorithm`` means that the scheme digest is switched off, and with it the super digest.
    """
    if scheme == "ip":
        return [Id("ip", address)]
    if scheme == "digest" and algorithm is not None and auth is not None:
        proved = digest_of(auth.decode(errors="replace"), algorithm)
        earned = [Id("digest", proved)]
        if super_digest is not None and hmac.compare_digest(proved.encode(), super_digest.encode()):
            earned.insert(0, SUPER)
        return earned
    return []


def user_name(held: Id) -> str:
    """The part of an id that may be shown, for WHO_AM_I."""
    if held.scheme == "digest":
        return held.id.partition(":")[0]
    return held.id if held.scheme == "ip" else ""


def _is_valid(scheme: str, id_: str) -> bool:
    if scheme == "digest":
        _user, colon, rest = id_.partition(":")
        return bool(colon) and bool(rest) and ":" not in rest
    return scheme == "ip" and _network(id_) is not None


def _matches(scheme: str, held: str, wanted: str) -> bool:
    if scheme == "digest":
        return hmac.compare_digest(held.encode(), wanted.encode())
    if scheme == "ip":
        network, address = _network(wanted), _address(held)
        if network is None or address is None or len(network[0]) != len(address):
            return False
        shift = 8 * len(address) - network[1]
        return int.from_bytes(network[0], "big") >> shift == int.from_bytes(address, "big") >> shift
    return False


@lru_cache(maxsize=1024)
def _network(text: str) -> tuple[bytes, int] | None:
    """``address[/bits]``, or None if it is not one."""
    before, slash, behind = text.partition("/")
    address = _address(before)
    if address is None:
        return None
    bits = _java_int(behind, 10) if slash else 8 * len(address)
    return (address, bits) if bits is not None and 0 <= bits <= 8 * len(address) else None


@lru_cache(maxsize=1024)
def _address(text: str) -> bytes | None:
    """An IPv4 or IPv6 address in the forms that ZooKeeper knows: neither zones nor IPv4 inside of IPv6."""
    if ":" in text:
        return _address_6(text)
    parts = [_java_int(part, 10) for part in text.split(".")]
    values = [value for value in parts if value is not None and 0 <= value <= 255]
    return bytes(values) if len(parts) == len(values) == 4 else None


def _address_6(text: str) -> bytes | None:
    head, gap, tail = text.partition("::")
    before = head.split(":") if head else []
    behind = tail.split(":") if tail else []
    count = len(before) + len(behind)
    if "::" in tail or (count >= 8 if gap else count != 8):
        return None
    segments = [*before, *["0"] * (8 - count), *behind]
    values = [_java_int(segment, 16) for segment in segments if len(segment) <= 4]
    groups = [(value & 0xFFFF).to_bytes(2, "big") for value in values if value is not None]
    return b"".join(groups) if len(groups) == 8 else None


def _java_int(text: str, base: int) -> int | None:
    """What ``Integer.parseInt`` makes of it; Python's ``int`` takes spaces, underscores and prefixes, too."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not all(digit in _DIGITS[:base] for digit in digits.lower()):
        return None
    value = int(text, base)
    return value if -(1 << 31) <= value < 1 << 31 else None


def host_address(text: str) -> str:
    """A client's address as Java writes it, and so ACLs and answers have it: all eight groups of an IPv6 address."""
    if ":" not in text:
        return text
    address, zone, name = text.partition("%")
    if address.startswith("::ffff:") and "." in address:
        return address.removeprefix("::ffff:")
    raw = _address_6(address)
    if raw is None:
        return text
    return ":".join(f"{raw[at] << 8 | raw[at + 1]:x}" for at in range(0, 16, 2)) + zone + name
