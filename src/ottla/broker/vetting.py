"""Judges batches that take long, in a thread of their own.

One thread, so that one batch at a time is unpacked however many are sent; decompressors release the interpreter, and the
loop serves everybody else meanwhile.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ottla.records import AppendOrigin, Rules
from ottla.records.validate import Vetted, vet


class Vetting:
    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "vetting")

    async def vet(self, data: bytes, rules: Rules, *, now_ms: int) -> Vetted:
        """What a client sent; raises what it is refused with."""
        judge = partial(vet, data, rules, now_ms=now_ms, origin=AppendOrigin.CLIENT)
        return await asyncio.get_running_loop().run_in_executor(self._executor, judge)

    def stop(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
