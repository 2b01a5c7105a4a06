"""Cleaning without a process of its own: the same job, handed over in the same steps."""

from __future__ import annotations

from ottla.log import Log
from ottla.log.cleaner.filth import filth
from ottla.log.cleaner.job import Cleaned, Job, Outcome, Resources, make_job
from ottla.log.cleaner.round import clean

LITTLE = Resources(dedupe_bytes=1 << 12)


def swap(log: Log, job: Job, cleaned: Cleaned, *, now_ms: int) -> bool:
    """Put a cleaned segment in its place, as the broker does."""
    begun = log.begin_swap(cleaned.bases, generation=job.generation)
    if begun is None:
        return False
    begun.sync()
    log.retire_swapped(begun)
    begun.sync()
    is_there = log.finish_swap(begun, now_ms=now_ms)
    begun.sync()
    return is_there


def clean_log(log: Log, *, now_ms: int, resources: Resources = LITTLE) -> tuple[Job, Outcome]:
    """One round over a log, whether it needs it or not."""
    job = Job.decode(make_job(log, filth(log, now_ms=now_ms), resources, now_ms=now_ms).encode())
    outcome = clean(job, lambda cleaned: swap(log, job, cleaned, now_ms=now_ms))
    assert outcome is not None
    log.cleaned_to = outcome.cleaned_to
    return job, outcome
