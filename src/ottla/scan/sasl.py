"""Who we are: SASL by PLAIN and SCRAM (RFC 5802), from the client's side.

    SaslHandshake(mechanism) ─► SaslAuthenticate(bytes) ─► ...      as many rounds as the mechanism has

PLAIN is one message. SCRAM is two rounds, in which the server proves that it knows the password, too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Protocol, TypeVar

from ottla.scan.errors import UnreachableError
from ottla.scan.settings import Settings
from ottla.wire import ErrorCode, Message
from ottla.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

R = TypeVar("R", bound=Message)
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS_MAX = 1 << 24


class Asking(Protocol):
    """A connection, as far as it is needed here."""

    address: str

    def ask(self, request: Message, cls: type[R]) -> R: ...


def authenticate(connection: Asking, settings: Settings) -> None:
    mechanism = settings.sasl_mechanism
    if mechanism != "PLAIN" and mechanism not in _HASHES:
        raise UnreachableError(f"sasl.mechanism={mechanism}: give one of PLAIN, {', '.join(_HASHES)}")
    answer = connection.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    if answer.error_code:
        raise UnreachableError(
            f"{connection.address} does not take {mechanism}, but {', '.join(answer.mechanisms) or 'nothing'}"
        )
    if mechanism == "PLAIN":
        _round(connection, f"\0{settings.username}\0{settings.password}".encode())
    else:
        scram = Scram(_HASHES[mechanism], settings.username, settings.password, secrets.token_urlsafe(24))
        final = scram.final(_round(connection, scram.first()))
        scram.check(_round(connection, final))


class Scram:
    """The messages of one conversation; pure, but for the nonce that it is given."""

    def __init__(self, algorithm: str, username: str, password: str, nonce: str) -> None:
        self._algorithm = algorithm
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        told = dict(part.split("=", 1) for part in challenge.decode().split(",") if "=" in part)
        nonce, iterations = told.get("r", ""), int(told.get("i", "0"))
        if not nonce.startswith(self._nonce) or not 0 < iterations <= _ITERATIONS_MAX:
            raise UnreachableError("the broker's SCRAM challenge does not fit what was sent to it")
        salted = hashlib.pbkdf2_hmac(self._algorithm, self._password.encode(), base64.b64decode(told["s"]), iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._algorithm, client_key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        expected = b"v=" + base64.b64encode(self._signature)
        if not hmac.compare_digest(answer, expected):
            raise UnreachableError("the broker does not prove that it knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._algorithm)


def _round(connection: Asking, message: bytes) -> bytes:
    answer = connection.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
    if answer.error_code:
        reason = answer.error_message or ErrorCode(answer.error_code).name
        raise UnreachableError(f"{connection.address} refuses to let us in: {reason}")
    return bytes(answer.auth_bytes)
