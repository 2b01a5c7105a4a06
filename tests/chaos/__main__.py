"""A cluster under faults for as long as you like: ``python -m tests.chaos --minutes 60 --seed 7``.

The seed decides what happens; when it happens to what, the machine does. ``--kafka`` has Apache Kafka's brokers instead of
ours, ``--zookeeper`` its servers instead of our keepers, ``--mistake`` our brokers with a mistake of ``sabotage``. What was seen is kept in ``history.jsonl``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.clusterrun import run
from tests.chaos.sabotage import MISTAKES


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--zookeeper", action="store_true")
    parser.add_argument("--mistake", choices=sorted(MISTAKES))
    parser.add_argument("--dir", type=Path, help="where everything is kept; a new folder otherwise")
    options = parser.parse_args()
    folder = options.dir or Path(tempfile.mkdtemp(prefix="ottla-chaos-"))
    print(f"seed {options.seed}, {options.minutes:g} minutes, in {folder}", flush=True)
    begun = time.monotonic()
    outcome = run(
        folder,
        seed=options.seed,
        seconds=options.minutes * 60,
        is_kafka=options.kafka,
        on_zookeeper=options.zookeeper,
        mistake=options.mistake,
        say=lambda what: print(f"{time.monotonic() - begun:7.1f} {what}", flush=True),
    )
    print(outcome)
    sys.exit(bool(outcome.anomalies))


if __name__ == "__main__":
    main()
