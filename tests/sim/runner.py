"""Many seeds, in as many processes as asked for."""

from __future__ import annotations

import gc
import logging
import signal
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.sim.loop import Violation
from tests.sim.world import World

KEPT_SEEDS = Path(__file__).with_name("seeds.txt")


class Outcome(NamedTuple):
    seed: int
    violation: str | None
    """What went wrong; None if nothing did."""
    steps: int
    simulated_s: float
    fingerprint: int
    counts: Mapping[str, int]
    notes: list[str]
    """What led to it."""


def run_seed(seed: int, mutant: str | None = None) -> Outcome:
    from tests.sim.mutants import MUTANTS

    world = World(seed)
    violation = None
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with MUTANTS[mutant]() if mutant else nullcontext():
            world.run()
    except Violation as e:
        violation = str(e)
    except Exception:  # noqa: BLE001
        violation = traceback.format_exc()
    finally:
        logging.disable(level)
    if seed % 16 == 0:
        gc.collect()  # worlds are full of cycles
    loop = world.loop
    notes = world.told_story() if violation else []
    simulated_s = loop.now_us / 1e6
    return Outcome(seed, violation, loop.steps, simulated_s, world.fingerprint, world.coverage.counts, notes)


def run_seeds(seeds: Iterable[int], *, jobs: int = 1, mutant: str | None = None) -> Iterator[Outcome]:
    """Outcomes as they come; close the iterator to stop early."""
    run = partial(run_seed, mutant=mutant)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with get_context("spawn").Pool(jobs, initializer=_ignore_interrupts) as pool:
        # Leaving the block ends the processes, also when the consumer stops or Ctrl-C comes.
        yield from pool.imap_unordered(run, seeds, chunksize=4)


def _ignore_interrupts() -> None:
    """Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def kept_seeds() -> list[int]:
    """Seeds that once failed."""
    lines = KEPT_SEEDS.read_text().splitlines()
    return [int(line.split("#")[0]) for line in lines if line.split("#")[0].strip()]
