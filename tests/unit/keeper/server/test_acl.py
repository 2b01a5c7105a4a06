"""Who is let in by a digest, an address, or not at all."""

from __future__ import annotations

from base64 import b64encode
from hashlib import new
from pathlib import Path

import pytest

from ottla.keeper.proto.errors import ErrorCode, KeeperError
from ottla.keeper.proto.jute import INT, put_buffer, put_int, put_string
from ottla.keeper.proto.opcodes import OpCode, Perms
from ottla.keeper.proto.records import ACL, AUTH_XID, REQUEST_HEADER, Id
from ottla.keeper.server.acl import digest_of, fixup
from tests.unit.keeper.monitored_ensemble import Ensemble, Person

ALL = Perms.ALL.value
NO_ERROR, AUTH_FAILED = 0, -115


def authenticated(folder: Path, password: bytes | None, settings: dict[str, str]) -> tuple[int, Person]:
    ensemble = Ensemble(folder, settings=settings)
    person = Person(ensemble, ensemble.of_mode("standalone"))
    body = bytearray()
    put_int(body, 0)
    put_string(body, "digest")
    put_buffer(body, password)
    person._say(REQUEST_HEADER.pack(AUTH_XID, OpCode.AUTH) + bytes(body))
    return INT.unpack_from(person.outlet.received[-1], 16)[0], person


@pytest.mark.parametrize(("name", "hashed"), [("SHA-256", "sha256"), ("SHA-512", "sha512")])
def test_passwords_are_hashed_as_the_settings_say(tmp_path: Path, name: str, hashed: str) -> None:
    code, person = authenticated(tmp_path, b"u:p", {"DigestAuthenticationProvider.digestAlg": name})
    assert code == NO_ERROR
    assert Id("digest", f"u:{b64encode(new(hashed, b'u:p').digest()).decode()}") in person.client.ids


def test_the_super_digest_is_of_the_same_hash(tmp_path: Path) -> None:
    settings = {
        "DigestAuthenticationProvider.digestAlg": "SHA-256",
        "DigestAuthenticationProvider.superDigest": digest_of("super:secret", "sha256"),
    }
    _, person = authenticated(tmp_path, b"super:secret", settings)
    assert person.client.ids[1].scheme == "super"


def test_nobody_gets_in_by_a_scheme_that_is_switched_off(tmp_path: Path) -> None:
    code, person = authenticated(tmp_path, b"u:p", {"DigestAuthenticationProvider.enabled": "false"})
    assert code == AUTH_FAILED
    assert not person.outlet.is_open


def test_no_acl_names_a_scheme_that_is_switched_off() -> None:
    acl = [ACL(ALL, "digest", digest_of("u:p"))]
    assert fixup(acl, ()) == tuple(acl)
    with pytest.raises(KeeperError) as caught:
        fixup(acl, (), digests=False)
    assert caught.value.code == ErrorCode.INVALID_ACL


def test_null_is_no_password(tmp_path: Path) -> None:
    code, person = authenticated(tmp_path, None, {})
    assert code == AUTH_FAILED
    assert not person.outlet.is_open
