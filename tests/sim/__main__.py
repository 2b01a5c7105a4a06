"""``python -m tests.sim``: many seeds, or one in detail."""

from __future__ import annotations

import argparse
import sys
import time

from tests.sim.coverage import Coverage
from tests.sim.mutants import MUTANTS
from tests.sim.runner import Outcome, kept_seeds, run_seed, run_seeds

FAILURES_MAX = 25


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many seeds to run (default 1000)")
    parser.add_argument("--start", type=int, default=0, metavar="SEED", help="the first of them (default 0)")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="processes to run them in (default 1)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed and tell what happened")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="run the code with a bug in it")
    parser.add_argument("--coverage", action="store_true", help="show how often what happened")
    args = parser.parse_args()
    if args.replay is not None:
        return _replay(args.replay, args.mutant)
    seeds = [*(kept_seeds() if args.start == 0 else ()), *range(args.start, args.start + args.seeds)]
    return _run(seeds, args.jobs, args.mutant, show_coverage=args.coverage)


def _replay(seed: int, mutant: str | None) -> int:
    outcome = run_seed(seed, mutant)
    print("\n".join(outcome.notes))
    print(f"seed {seed}: {outcome.violation or 'no violation'}")
    return outcome.violation is not None


def _run(seeds: list[int], jobs: int, mutant: str | None, *, show_coverage: bool) -> int:
    coverage, failed, started = Coverage(), [], time.monotonic()
    done, steps, simulated_s = 0, 0, 0.0
    try:
        for outcome in run_seeds(seeds, jobs=jobs, mutant=mutant):
            done += 1
            steps += outcome.steps
            simulated_s += outcome.simulated_s
            coverage.add(outcome.counts)
            if outcome.violation:
                failed.append(outcome)
                _show_failure(outcome, mutant)
            _show_progress(done, len(seeds), len(failed), time.monotonic() - started)
            if len(failed) >= FAILURES_MAX:
                print(f"{FAILURES_MAX} failed, so the rest is left out")
                break
    except KeyboardInterrupt:
        print(f"\ninterrupted after {done} of {len(seeds)} seeds", file=sys.stderr)
        return 130
    took_s = time.monotonic() - started
    print(f"{done} seeds, {steps:,} steps, {simulated_s:,.0f} s simulated in {took_s:.0f} s: {len(failed)} failed")
    if show_coverage:
        for name, count in sorted(coverage.counts.items()):
            print(f"{count:8,} {name}")
    missing = coverage.missing() if len(seeds) >= 200 else []
    for name in missing:
        print(f"never happened: {name}")
    return bool(failed or missing)


def _show_failure(outcome: Outcome, mutant: str | None) -> None:
    _clear_line()
    lines = (outcome.violation or "").splitlines()
    print(f"seed {outcome.seed}: {lines[0]}{' …' if len(lines) > 1 else ''}")
    print(
        f"    replay: python -m tests.sim --replay {outcome.seed}{f' --mutant {mutant}' if mutant else ''}", flush=True
    )


def _show_progress(done: int, total: int, failed: int, took_s: float) -> None:
    text = f"{done}/{total} seeds, {failed} failed, {took_s:.0f} s"
    if sys.stderr.isatty():
        print(f"\r{text}", end="" if done < total else "\n", file=sys.stderr, flush=True)
    elif done % 100 == 0:
        print(text, file=sys.stderr, flush=True)


def _clear_line() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
