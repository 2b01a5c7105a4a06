"""A keeper that only answers ``srvr``, in the place of the real one, so that tests can tell it how to fail.

``STANDIN`` in the environment holds ``ID=HOW`` words; a keeper without one serves, and ends when it is asked to. With
``PATIENT``, whoever asks processes to end has ten minutes for them to do so.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import types
from typing import Any


def run(config: Any) -> int:
    how = dict(word.split("=") for word in os.environ.get("STANDIN", "").split()).get(str(config.my_id), "serve")
    if how == "exit":
        print("the disk is on fire", flush=True)
        return 3
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.create_server((config.client_host, config.client_port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(4)
                if how == "silent":
                    connection.sendall(b"This ZooKeeper instance is not currently serving requests\n")
                else:
                    connection.sendall(b"Zookeeper version: none\nMode: follower\nNode count: 5\n")


main = types.ModuleType("ottla.keeper.main")
vars(main)["run"] = run
sys.modules["ottla.keeper.main"] = main

if os.environ.get("PATIENT"):
    from ottla.cli import supervisor

    supervisor.GRACE_S = 600.0
