"""Pages whose commands are run as they are shown, and have to print what is shown below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_COMMAND = re.compile(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", re.MULTILINE)


def run_page(
    name: str,
    environment: Mapping[str, str],
    folder: Path,
    *,
    kind: str = "console",
    here: Callable[[str], str] = str,
    timeout_s: float = 120,
) -> int:
    """How many blocks of this ``kind`` there were. ``here`` puts what is true on this machine into a command or its output."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", (DOCS / name).read_text(), re.DOTALL | re.MULTILINE)
    mine = {**os.environ, **environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for block in blocks:
        for command, shown in _COMMAND.findall(block):
            done = subprocess.run(
                ["bash", "-c", here(command)],
                env=mine,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout_s,
                check=False,
            )
            assert done.stdout == here(shown), f"{command}\n{done.stdout}"
    return len(blocks)
