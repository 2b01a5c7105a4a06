"""A connection to one broker for requests in a row: blocking, and with as many in flight as the caller sends.

Responses come in the order of the requests. A frame is received into one piece of memory, and records in it are views:
nothing of what is fetched is copied on its way to the decoder.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections import deque
from typing import TypeVar

from ottla.scan import sasl
from ottla.scan.errors import UnreachableError
from ottla.scan.settings import Settings
from ottla.wire import APIS, ApiKey, DecodeError, ErrorCode, Message, decoder, parse_response_header, request_framer
from ottla.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.table import schema

FRAME_BYTES_MAX = 1 << 30
"""Of a response; a batch is returned whole, however little was asked for."""

VERSIONS_MAX = {ApiKey.FETCH: 11, ApiKey.METADATA: 12, ApiKey.LIST_OFFSETS: 7}
"""Up to 11, records are the last bytes of a Fetch response, and topics have names."""

_LENGTH = struct.Struct(">i")
_RECEIVE_BUFFER = 4 << 20
_CONNECT_S = 10.0

R = TypeVar("R", bound=Message)


class Connection:
    """Opened, secured and with the versions agreed on. Errors of the network raise OSError or UnreachableError."""

    def __init__(self, host: str, port: int, settings: Settings) -> None:
        self.address = f"{host}:{port}"
        self._client_id = settings.client_id
        self._waiting: deque[tuple[int, ApiKey, int]] = deque()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = _connected(host, port, settings)
        try:
            self._greet(settings)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def speaks(self, key: ApiKey) -> bool:
        return key in self._versions

    def limit(self, timeout_s: float) -> None:
        """How long silence is borne from now on."""
        _limit(self._socket, timeout_s)

    def has_answer(self, timeout_s: float) -> bool:
        """Whether something comes in that time; the end of the connection is something, too."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def send(self, request: Message) -> None:
        key = schema(type(request).__name__).key
        assert key is not None, request
        self._send(request, ApiKey(key), self._version(ApiKey(key)))

    def receive(self, cls: type[R]) -> R:
        """The response to the oldest request that has none yet."""
        correlation_id, key, version = self._waiting.popleft()
        frame = self._frame()
        answered, pos = parse_response_header(key, version, frame)
        if answered != correlation_id:
            raise DecodeError(f"{self.address} answers request {answered} where {correlation_id} was to be answered")
        return decoder(cls, version)(frame, pos)

    def ask(self, request: Message, cls: type[R]) -> R:
        self.send(request)
        return self.receive(cls)

    def _send(self, request: Message, key: ApiKey, version: int) -> None:
        self._correlation_id += 1
        parts = request_framer(type(request), version, self._client_id)(request, self._correlation_id)
        self._waiting.append((self._correlation_id, key, version))
        self._socket.sendall(b"".join(parts))

    def _version(self, key: ApiKey) -> int:
        low, high = self._versions.get(key, (0, -1))
        version = min(high, APIS[key].versions.high, VERSIONS_MAX.get(key, high))
        if version < low:
            raise UnreachableError(f"{self.address} speaks no version of {key.name} that is spoken here")
        return version

    def _greet(self, settings: Settings) -> None:
        """Versions first, as every client does, then who we are."""
        for version in (3, 0):
            self._send(
                ApiVersionsRequest(client_software_name="ottla", client_software_version="0"),
                ApiKey.API_VERSIONS,
                version,
            )
            correlation_id, _, _ = self._waiting.popleft()
            frame = self._frame()
            _, pos = parse_response_header(ApiKey.API_VERSIONS, version, frame)
            # A broker that does not know the version says so in version 0.
            code = struct.unpack_from(">h", frame, pos)[0]
            told = 0 if code == ErrorCode.UNSUPPORTED_VERSION else version
            answer = decoder(ApiVersionsResponse, told)(frame, pos)
            if code == ErrorCode.NONE:
                self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
                break
            assert correlation_id
        else:
            raise UnreachableError(f"{self.address} does not tell its versions")
        if settings.is_authenticated:
            sasl.authenticate(self, settings)

    def _frame(self) -> bytes:
        (size,) = _LENGTH.unpack(self._exactly(4))
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise DecodeError(f"{self.address} announces a response of {size} bytes")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        """One piece as a rule: the kernel waits until all of it is there."""
        parts = []
        while size > 0:
            part = self._receive(size)
            if not part:
                raise ConnectionResetError(f"{self.address} closed the connection")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _receive(self, size: int) -> bytes:
        if isinstance(self._socket, ssl.SSLSocket):
            return self._socket.recv(size)
        try:
            return self._socket.recv(size, socket.MSG_WAITALL)
        except BlockingIOError:
            raise TimeoutError(f"{self.address} does not answer") from None


def _connected(host: str, port: int, settings: Settings) -> socket.socket:
    made = socket.create_connection((host, port), timeout=min(_CONNECT_S, settings.timeout_s))
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        if settings.is_encrypted:
            made = _secured(made, host, settings)
        _limit(made, settings.timeout_s)
    except BaseException:
        made.close()
        raise
    return made


def _limit(made: socket.socket, timeout_s: float) -> None:
    if isinstance(made, ssl.SSLSocket):
        made.settimeout(timeout_s)
        return
    # A timeout of Python's would make the socket non-blocking, and then nobody waits for all of a frame.
    made.settimeout(None)
    whole = int(timeout_s)
    limit = struct.pack("@ll", whole, int((timeout_s - whole) * 1_000_000))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _secured(plain: socket.socket, host: str, settings: Settings) -> socket.socket:
    context = ssl.create_default_context(cafile=settings.ssl_ca_location)
    context.check_hostname = settings.check_hostname
    if settings.ssl_certificate_location:
        context.load_cert_chain(settings.ssl_certificate_location, settings.ssl_key_location, settings.ssl_key_password)
    return context.wrap_socket(plain, server_hostname=host)
