"""Four-letter words: one word sent, everything until the end of the connection read."""

from __future__ import annotations

import socket


def four_letter_word(port: int, word: str, *, host: str = "127.0.0.1", timeout_s: float = 60) -> str:
    """What a server answers; raises OSError if there is none to answer."""
    with socket.create_connection((host, port), timeout=timeout_s) as peer:
        peer.sendall(word.encode())
        parts: list[bytes] = []
        while part := peer.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()


def mntr(port: int) -> dict[str, str]:
    """The lines of ``mntr`` as a mapping."""
    pairs = (line.split("\t", 1) for line in four_letter_word(port, "mntr").splitlines() if "\t" in line)
    return {pair[0]: pair[1] for pair in pairs}


def mode(port: int) -> str | None:
    """``leader``, ``follower``, ``observer``, ``standalone``, ``read-only``; None while the server does not serve."""
    try:
        answer = four_letter_word(port, "srvr", timeout_s=2)
    except OSError:
        return None
    for line in answer.splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ")
    return None
