"""The process that cleans: jobs come in as lines, and what became of them goes out as lines, all JSON.

    in     a job
    out    {"cleaned": …}      a new segment lies ready; then waits for
    in     "go" or "stop"
    out    {"outcome": …}      the round is over; {"outcome": null} if it was stopped
           {"corrupt": …}      what lies there cannot be cleaned
           {"errno": …, "message": …}

It must not outlive the broker: whoever starts that again cleans the same logs, into the same files. So the kernel ends it
with its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import TextIO

from ottla.base.errors import CorruptionError
from ottla.log.cleaner.job import GO, Cleaned, Job
from ottla.log.cleaner.round import clean

_PR_SET_PDEATHSIG = 1


def serve(jobs: TextIO, answers: TextIO) -> None:
    """Do one job after the other, until there are no more."""

    def tell(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    def hand_over(cleaned: Cleaned) -> bool:
        tell(cleaned=asdict(cleaned))
        return jobs.readline().strip() == GO

    for line in iter(jobs.readline, ""):
        try:
            outcome = clean(Job.decode(line), hand_over)
            tell(outcome=None if outcome is None else asdict(outcome))
        except CorruptionError as error:
            tell(corrupt=str(error))
        except OSError as error:
            tell(errno=error.errno or 0, message=str(error))


def _end_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # it was faster


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the broker, which ends this one itself
    _end_with_parent(int(sys.argv[1]))
    try:
        serve(sys.stdin, sys.stdout)
    except BrokenPipeError:
        os._exit(1)  # nobody is there to be told, nor to read what is still to be flushed


if __name__ == "__main__":
    main()
