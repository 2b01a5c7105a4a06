"""Compiles the modules on the path of a request with mypyc, where a C compiler is at hand.

They are ordinary typed Python: without a compiler, or with OTTLA_COMPILE=0, the same files run as they are, only slower.
A compiled module lies beside its source and is preferred over it, so an edit counts only after ``make setup``.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("src")
BUILDING = {"build", "build_ext", "bdist_wheel", "editable_wheel"}
COMPILED = (
    "ottla/base/clock.py",
    "ottla/broker/api.py",
    "ottla/broker/connection.py",
    "ottla/broker/dispatch.py",
    "ottla/base/timers.py",
    "ottla/net/connection.py",
    "ottla/net/flow.py",
    "ottla/net/frames.py",
    "ottla/net/turn.py",
    "ottla/keeper/clientport.py",
    "ottla/keeper/disk.py",
    "ottla/keeper/links.py",
    "ottla/keeper/member.py",
    "ottla/keeper/messages.py",
    "ottla/keeper/roles.py",
    "ottla/keeper/shell.py",
    "ottla/keeper/wire.py",
    "ottla/keeper/proto",
    "ottla/keeper/quorum",
    "ottla/keeper/server",
    "ottla/records/walk.py",
)


def compiled_modules() -> list[str]:
    found = []
    for name in COMPILED:
        path = SOURCES / name
        found += sorted(path.glob("*.py")) if path.is_dir() else [path]
    return [str(path) for path in found if path.name != "__init__.py"]


def extensions() -> list[Extension]:
    if os.environ.get("OTTLA_COMPILE") == "0" or not BUILDING & set(sys.argv):
        return []
    from mypyc.build import mypycify

    # Types are checked elsewhere. Here, what Ottla depends on may not even be installed yet.
    lenient = ["--config-file", os.devnull, "--ignore-missing-imports"]
    try:
        made = mypycify([*lenient, *compiled_modules()], opt_level="2", debug_level="0", separate=True)
    except SystemExit:
        # mypy judges with the newest rules it knows; what it finds wrong must not keep anybody from installing.
        sys.stderr.write("ottla: the modules could not be translated and will run uncompiled\n")
        return []
    for extension in made:
        extension.optional = True
    return made


setup(ext_modules=extensions())
