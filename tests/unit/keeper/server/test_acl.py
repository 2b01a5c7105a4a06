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
from ottla.keeper.server.acl import allowed, digest_of, fixup, host_address
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


@pytest.mark.parametrize(
    "id_",
    [
        "127.0.0.1/ 8",
        "::ffff:127.0.0.1",
        "fe80::1%lo",
        "127.0.0",
        "256.0.0.1",
        " 127.0.0.1",
        "127.0.0.1/",
        "127.0.0.1/8/9",
        "127.0.0.1/33",
        "127.0.0.1/-1",
        "1_2.0.0.1",
        "localhost",
        "",
        "::1/129",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4::5:6:7:8",
        "1::2::3",
        "0x1::",
        "12345::",
        ":::",
    ],
)
def test_what_is_no_address_to_zookeeper_is_none_here(id_: str) -> None:
    with pytest.raises(KeeperError) as caught:
        fixup([ACL(ALL, "ip", id_)], ())
    assert caught.value.code == ErrorCode.INVALID_ACL


@pytest.mark.parametrize(
    ("id_", "lets_in", "keeps_out"),
    [
        ("127.0.0.01", "127.0.0.1", "127.0.0.2"),
        ("0177.0.0.1", "177.0.0.1", "127.0.0.1"),
        ("+127.0.0.1/+8", "127.9.9.9", "128.0.0.1"),
        ("10.1.2.3/0", "1.2.3.4", "0:0:0:0:0:0:0:1"),
        ("10.1.2.3/31", "10.1.2.2", "10.1.2.4"),
        ("::1", "0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:2"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:9"),
        ("FE80::/10", "fe80:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::/0", "2001:db8:0:0:0:0:0:1", "127.0.0.1"),
        ("2001:db8::7", "2001:db8:0:0:0:0:0:7", "2001:db8:0:0:0:0:7:7"),
    ],
)
def test_addresses_are_read_as_zookeeper_reads_them(id_: str, lets_in: str, keeps_out: str) -> None:
    acl = fixup([ACL(ALL, "ip", id_)], ())
    assert allowed(acl, ALL, [Id("ip", lets_in)])
    assert not allowed(acl, ALL, [Id("ip", keeps_out)])


@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::8:800:200c:417a", "2001:db8:0:0:8:800:200c:417a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_addresses_are_written_as_java_writes_them(address: str, java: str) -> None:
    assert host_address(address) == java
