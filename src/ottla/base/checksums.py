"""CRC-32C, straight from the extension module of the ``crc32c`` package.

What that package does on import besides (it looks up its own version, and makes a command line) takes 2.8 MB and 20 ms of
every process that only wants the function.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

Crc32c = Callable[..., int]
"""Called with bytes, or a view of them, and the checksum of what comes before, if anything does."""


def _found() -> Crc32c:
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    extension = None if places is None else PathFinder.find_spec("crc32c._crc32c", places)
    if extension is None or extension.loader is None:
        from crc32c import crc32c as of_the_package

        return of_the_package
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    return cast("Crc32c", module.crc32c)


crc32c: Crc32c = _found()
