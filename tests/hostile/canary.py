"""A client that does nothing wrong, in a process of its own, and measures how long its answers take.

    python -m tests.hostile.canary PORT PID        ends when its standard input does, and then prints its figures

On a busy machine a server or this client often waits for a processor; the kernel counts that time for each of them
(``/proc/PID/schedstat``), and it is no fault of the server's, so it is left out.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path

from tests.compat import rawclient as raw
from tests.compat.rawclient import ClosedError, Connection, SilenceError

PACE_S = 0.004


def waited_ns(pid: int) -> int:
    """How long a process has been ready to run without a processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def main() -> None:
    port, server = int(sys.argv[1]), int(sys.argv[2])
    latencies: list[float] = []
    failure = ""
    with Connection(port, timeout_s=120) as connection:
        connection.connect()
        print("ready", flush=True)
        body = raw.string("/") + raw.bool_(False)
        me = os.getpid()
        try:
            while not select.select([sys.stdin], [], [], PACE_S)[0]:
                waits, started = waited_ns(server) + waited_ns(me), time.perf_counter()
                answer = connection.call(raw.GET_DATA, body)
                taken = time.perf_counter() - started
                waited = (waited_ns(server) + waited_ns(me) - waits) / 1e9
                latencies.append(max(taken - waited, 0.0))
                if answer["err"] != 0:
                    failure = f"error {answer['err']}"
                    break
            connection.call(raw.CLOSE_SESSION)
        except (ClosedError, SilenceError, OSError) as error:
            failure = repr(error)
    print(json.dumps({"latencies": latencies, "failure": failure}), flush=True)


if __name__ == "__main__":
    main()
