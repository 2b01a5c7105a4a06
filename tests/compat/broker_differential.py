"""The same random requests sent to Apache Kafka 3.9.1 and to ours, and every answer compared.

    python -m tests.compat.broker_differential [--seed N] [--requests N] [--all]

With ``--all`` it goes on behind a difference and tells all of them; otherwise it stops at the first.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.compat.answers import Comparison
from tests.compat.broker_requests import Generator
from tests.compat.brokerpair import Answer, Side, SilenceError, Step, pair


class DifferenceError(AssertionError):
    """Two answers that should be the same and are not."""


def compare(left: Side, right: Side, steps: Iterable[Step], *, comparison: Comparison | None = None) -> Counter[str]:
    """How many answers of which API and version of ours were compared. Raises DifferenceError at the first difference."""
    comparison = comparison or Comparison()
    compared: Counter[str] = Counter()
    for number, step in enumerate(steps):
        for difference, answer in differences(comparison, left, right, step):
            compared[f"{answer.step.key.name} {answer.version}"] += 1
            if difference:
                raise DifferenceError(f"step {number}: {answer.step}\n  {'; '.join(difference)}")
    return compared


def differences(comparison: Comparison, left: Side, right: Side, step: Step) -> Sequence[tuple[list[str], Answer]]:
    """For each answer to a step, what is different, and the answer of ours."""
    try:
        ours, theirs = left.run(step), right.run(step)
    except SilenceError as error:
        raise SilenceError(f"{error} of {step}") from error
    return [(comparison.differences(one, other), other) for one, other in zip(ours, theirs, strict=True)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args(arguments)
    steps = Generator(options.seed).steps(options.requests)
    with pair() as (left, right):
        if not options.all:
            print(compare(left, right, steps))
            return 0
        comparison, found, total = Comparison(), 0, 0
        for number, step in enumerate(steps):
            for difference, answer in differences(comparison, left, right, step):
                total += 1
                if difference:
                    found += 1
                    print(f"step {number}: {str(answer.step)[:700]}", *difference[:6], sep="\n    ", flush=True)
        print(f"{found} of {total} answers differ")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
