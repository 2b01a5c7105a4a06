"""Python packages that a foreign test suite needs in versions of its own, in ``.peers/NAME`` of the checkout."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from tests.peers.maven import PEERS, PeerMissingError

SETS: dict[str, tuple[str, ...]] = {
    # Another codec of the same protocol, written in Python and Rust by others.
    "kio-0.6.5": ("kio==0.6.5",),
    # The newest Spark, beside the one for which Spark's own connector can be had.
    "pyspark-4.3.0": ("pyspark==4.3.0",),
    # kazoo's harness makes certificates with calls that later versions of pyOpenSSL no longer have.
    "kazoo-suite": ("pyOpenSSL==24.2.1", "pyjks==20.0.0", "gevent==24.11.1", "eventlet==0.38.2", "objgraph==3.6.2"),
}


def packages(name: str) -> Path:
    """A folder for PYTHONPATH, filled if it is not there yet."""
    wanted = SETS[name]
    PEERS.mkdir(exist_ok=True)
    with (PEERS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        home = PEERS / name
        stamp = home / "complete"
        if not stamp.exists() or stamp.read_text().split() != list(wanted):
            shutil.rmtree(home, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(home), *wanted]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode != 0:
                raise PeerMissingError(f"pip did not bring {', '.join(wanted)}:\n{done.stderr[-4000:]}")
            stamp.write_text("\n".join(wanted) + "\n")
        return home
