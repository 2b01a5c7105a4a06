"""What a bench is told: how often, how much, and which of its parts."""

from __future__ import annotations

import argparse
import sys

from ottla.base.compiled import is_compiled


class Arguments(argparse.Namespace):
    rounds: int
    scale: float
    only: str


def arguments(description: str, parts: str) -> Arguments:
    """From the command line. Ends the program where figures would not be those of what users run."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is told")
    parser.add_argument("--scale", type=float, default=1.0, help="of the load; 1 is what the goals are for")
    parser.add_argument("--only", default=parts, help="some of the parts, separated by commas")
    args = parser.parse_args(namespace=Arguments())
    if not is_compiled():
        sys.exit(
            "bench: Ottla is not compiled, and would be measured at less than it is: make setup needs a C compiler"
        )
    return args
