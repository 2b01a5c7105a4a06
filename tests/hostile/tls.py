"""A client that was told of TLS, at a port that has none."""

from __future__ import annotations

import socket
import ssl

import pytest


def shake_hands_in_vain(port: int, *, times: int) -> None:
    """Every handshake has to be refused, and none may be left hanging."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for _ in range(times):
        plain = socket.create_connection(("127.0.0.1", port), timeout=20)
        with plain, pytest.raises(OSError):
            context.wrap_socket(plain)
