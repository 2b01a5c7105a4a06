"""Lets the tests run the sources, not the modules compiled from them.

Much of what is tested is watched or broken on purpose by replacing a method, and compiled code calls its own methods
without looking. What runs in processes of its own (``tests/chaos``, ``tests/compat``, ``tests/hostile``) is compiled, and
``OTTLA_TESTS=compiled`` runs the rest that way, too: ``tests/unit/test_compiled.py`` does.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src"
COMPILED = os.environ.get("OTTLA_TESTS") == "compiled"


def _finder(path: str) -> FileFinder:
    if not Path(path).is_relative_to(SOURCES):
        raise ImportError
    return FileFinder(path, (SourceFileLoader, [".py"]))


def prefer_sources() -> None:
    if not COMPILED and _finder not in sys.path_hooks:
        loaded = [module.__file__ or "" for name, module in sys.modules.items() if name.partition(".")[0] == "ottla"]
        assert all(file.endswith(".py") for file in loaded), "too late"  # pytest has loaded our plugin
        sys.path_hooks.insert(0, _finder)
        sys.path_importer_cache.clear()
