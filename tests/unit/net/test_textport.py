"""A page of text where it was asked to be, on either kind of address."""

from __future__ import annotations

import asyncio
from urllib.request import Request, urlopen

import pytest

from ottla.net.textport import TextPort


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_the_text_is_served_there(host: str, shown: str) -> None:
    async def served() -> str:
        loop = asyncio.get_running_loop()
        port = TextPort(lambda: "the text", loop, host, 0)
        try:
            url = f"http://{shown}:{port.port}/metrics"
            return await loop.run_in_executor(None, lambda: urlopen(url).read().decode())
        finally:
            port.stop()

    assert asyncio.run(served()) == "the text"


def test_head_tells_of_the_text_without_it() -> None:
    async def served() -> tuple[str | None, bytes]:
        loop = asyncio.get_running_loop()
        port = TextPort(lambda: "the text", loop, "127.0.0.1", 0)
        request = Request(f"http://127.0.0.1:{port.port}/metrics", method="HEAD")
        try:
            answer = await loop.run_in_executor(None, urlopen, request)
            return answer.headers["Content-Length"], answer.read()
        finally:
            port.stop()

    assert asyncio.run(served()) == ("8", b"")
