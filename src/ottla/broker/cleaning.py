"""Keeps compacted logs clean: the filthiest first, as many at a time as ``log.cleaner.threads`` says.

The work is done by processes (``log.cleaner.worker``), which are started when there is some and ended when there is none. What
has to happen to the log happens here, between two requests: new segments take the places of old ones (``log.swap``), and the
syncs that this needs wait in another thread.

A log that cannot be cleaned is told of once and left alone until a restart. Its records are served as ever.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ottla.base.clock import Clock
from ottla.base.errors import CorruptionError
from ottla.base.scope import TaskScope
from ottla.broker.config import BrokerConfig
from ottla.log import Log, LogDirectory, StorageError, TopicPartition
from ottla.log.cleaner.filth import Filth, filthiest
from ottla.log.cleaner.job import GO, STOP, Cleaned, Job, Outcome, make_job

logger = logging.getLogger(__name__)

_ANSWER_BYTES_MAX = 64 << 20
"""A new segment is told of with the offsets of all that it was made from."""


class Worker:
    """A process that cleans one log at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Worker:
        command = (sys.executable, "-P", "-m", "ottla.log.cleaner.worker", str(os.getpid()))
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_ANSWER_BYTES_MAX))

    async def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise ConnectionError(f"the cleaner's process ended with {await self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Cleaning:
    def __init__(self, config: BrokerConfig, clock: Clock, directories: Sequence[LogDirectory]) -> None:
        self.uncleanable: dict[TopicPartition, str] = {}
        """Why, for each that is left alone."""
        self._config = config
        self._clock = clock
        self._directories = directories
        self._busy: set[Log] = set()
        self._idle: list[Worker] = []
        self._changed = asyncio.Event()

    async def run(self) -> None:
        async with TaskScope("cleaner") as scope:
            while True:
                settings = self._config.cleaner()
                self._changed.clear()
                while settings.is_enabled and len(self._busy) < settings.threads:
                    found = self._filthiest()
                    if found is None:
                        break
                    self._busy.add(found[0])
                    job = self._make_job(*found)
                    scope.spawn(self._clean(found[0], job), name=f"cleaning of {found[0].topic_partition}")
                if not self._busy:
                    await self._end_idle()
                with suppress(TimeoutError):
                    async with asyncio.timeout(settings.backoff_ms / 1000):
                        await self._changed.wait()

    def _filthiest(self) -> tuple[Log, Filth] | None:
        logs = (
            log
            for directory in self._directories
            if directory.health.failure is None
            for where, log in directory.logs.items()
            if log not in self._busy and where not in self.uncleanable and not self._is_moving(where)
        )
        with suppress(StorageError):
            return filthiest(logs, now_ms=self._clock.wall_ms())
        return None

    def _make_job(self, log: Log, found: Filth) -> Job:
        return make_job(log, found, self._config.cleaner().resources, now_ms=self._clock.wall_ms())

    # ------------------------------------------------------------------ one log

    async def _clean(self, log: Log, job: Job) -> None:
        worker = self._idle.pop() if self._idle else await Worker.start()
        try:
            await worker.tell(job.encode())
            outcome = await self._follow(worker, log, job)
            if outcome is not None:
                self._finish(log, job, outcome)
            self._idle.append(worker)
        except CorruptionError as error:
            self._idle.append(worker)
            self._give_up(log, str(error))
        except StorageError:
            await worker.end()  # the directory is offline, and has said why
        except OSError as error:
            await worker.end()
            self._failed(log, job, error)
        except BaseException:
            await worker.end()
            raise
        finally:
            self._busy.discard(log)
            self._changed.set()

    async def _follow(self, worker: Worker, log: Log, job: Job) -> Outcome | None:
        while True:
            answer = await worker.hear()
            if "cleaned" in answer:
                may_swap = self._directory_of(log) is not None and not self._is_moving(log.topic_partition)
                is_there = may_swap and await self._swap(log, job, Cleaned(**answer["cleaned"]))
                await worker.tell(GO if is_there else STOP)
            elif "outcome" in answer:
                return None if answer["outcome"] is None else Outcome(**answer["outcome"])
            elif "corrupt" in answer:
                raise CorruptionError(answer["corrupt"])
            else:
                raise OSError(answer["errno"], answer["message"])

    async def _swap(self, log: Log, job: Job, cleaned: Cleaned) -> bool:
        swap = log.begin_swap(cleaned.bases, generation=job.generation)
        if swap is None:
            return False
        in_thread = asyncio.get_running_loop().run_in_executor
        await in_thread(None, swap.sync)
        log.retire_swapped(swap)
        await in_thread(None, swap.sync)
        is_there = log.finish_swap(swap, now_ms=self._clock.wall_ms())
        await in_thread(None, swap.sync)
        return is_there

    def _finish(self, log: Log, job: Job, outcome: Outcome) -> None:
        directory = self._directory_of(log)
        if directory is None or log.generation != job.generation:
            return
        log.cleaned_to = outcome.cleaned_to
        directory.checkpoint_cleaned()
        logger.info(
            "%s is cleaned up to offset %d: %d bytes read, %d written, %d keys",
            log.topic_partition,
            outcome.cleaned_to,
            outcome.bytes_read,
            outcome.bytes_written,
            outcome.keys,
        )

    def _failed(self, log: Log, job: Job, error: OSError) -> None:
        """A disk that refuses is given up. Files may also be gone because the log is, or was cut meanwhile."""
        directory = self._directory_of(log)
        if directory is None:
            return
        gone = {*job.bases} - {segment.base_offset for segment in log.segments}
        if error.errno == errno.ENOENT and (gone or log.generation != job.generation):
            return
        if isinstance(error, ConnectionError) or error.errno == errno.ENOENT:
            self._give_up(log, str(error))
        else:
            directory.health.failed(f"compaction of {log.topic_partition}", error)

    def _give_up(self, log: Log, reason: str) -> None:
        self.uncleanable[log.topic_partition] = reason
        logger.error("%s is not cleaned any more: %s", log.topic_partition, reason)

    def _directory_of(self, log: Log) -> LogDirectory | None:
        here = (each for each in self._directories if each.logs.get(log.topic_partition) is log)
        return next(here, None)

    def _is_moving(self, where: TopicPartition) -> bool:
        return any(where in directory.future_logs for directory in self._directories)

    async def _end_idle(self) -> None:
        while self._idle:
            await self._idle.pop().end()
