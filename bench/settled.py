"""``bench/load/broker.py`` with patience, and a pause between making a topic and sending to it, on a machine that is settled.

A Kafka 4 tells of a topic before it leads it, and so does one of three that replicate: the load takes the answer to its
first request for a failure. On a machine that is too busy it takes longer to make a topic than the load waits for one.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import machine

LOAD = Path(__file__).parent / "load" / "broker.py"
PAUSE_S = 2.0
PATIENCE = 5


def main() -> None:
    """Run the load as it is, but for the pause; the arguments are its own."""
    text = LOAD.read_text()
    assert text.rstrip().endswith("main()"), "the last line starts it"
    load: dict[str, Any] = {}
    exec(compile(text.rstrip().removesuffix("main()"), LOAD, "exec"), load)  # noqa: S102  our own file
    leaders = load["leaders"]

    def settled(*args: object) -> object:
        for _ in range(PATIENCE):
            with suppress(SystemExit):
                found = leaders(*args)
                time.sleep(PAUSE_S)
                machine.settle()
                return found
        return leaders(*args)

    load["leaders"] = settled
    load["main"]()


if __name__ == "__main__":
    main()
