"""Whether the modules on the path of a request run compiled (see ``setup.py``) or as they are written."""

from __future__ import annotations

from ottla.base import clock


def is_compiled() -> bool:
    return not str(clock.__file__).endswith(".py")
