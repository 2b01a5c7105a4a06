"""Sources that read until they cannot."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import cast

import pytest

from ottla.base.clock import SystemClock
from ottla.collect.intake import Intake, Parcel
from ottla.collect.shaping import Shape
from ottla.collect.sources import Desk, StdinSource


class Broken:
    """An intake whose disk is gone."""

    async def put(self, parcel: Parcel) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_what_goes_wrong_in_the_thread_of_standard_input_is_told() -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"a line\n")
        desk = Desk(cast("Intake", Broken()), Shape("t"), SystemClock(), "here", 100)
        with pytest.raises(OSError, match="Input/output error"):
            asyncio.run(asyncio.wait_for(StdinSource(desk, reader).run(), 60))
    finally:
        os.close(reader)
        os.close(writer)
