"""A port where ``GET /metrics`` is answered with a text, in a thread of its own so that a slow scraper slows nobody.

The text is made on the loop, where the state lives; only the text leaves it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ottla.base.errors import ConfigError

RENDER_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 10.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Server6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


class TextPort:
    """Serves until ``stop``. Raises ConfigError where the port cannot be had."""

    def __init__(self, render: Callable[[], str], loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        try:
            self._http = (_Server6 if ":" in host else ThreadingHTTPServer)((host, port), _handler(render, loop))
        except OSError as e:
            raise ConfigError(f"cannot listen on {host}:{port} (metrics port): {e.strerror or e}") from e
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, name="metrics", daemon=True).start()

    @property
    def port(self) -> int:
        return self._http.server_port

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def _handler(render: Callable[[], str], loop: asyncio.AbstractEventLoop) -> type[BaseHTTPRequestHandler]:
    async def rendered() -> str:
        return render()

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/metrics", "/"):
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            text = asyncio.run_coroutine_threadsafe(rendered(), loop).result(RENDER_TIMEOUT_S).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_HEAD = do_GET  # noqa: N815  as http.server names it

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Scrapes are no news."""

    return Handler
