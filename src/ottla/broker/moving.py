"""Moves replicas between the log directories of this broker (``replica.moves``), each in a task of its own.

Reads wait for the disk in another thread. The last of it is copied, and the new log put in the place of the old, in one turn
of the loop: nothing can be appended in between.
"""

from __future__ import annotations

import asyncio
import logging

from ottla.base.clock import Clock
from ottla.base.errors import Error
from ottla.base.scope import TaskScope
from ottla.log import LogDirectory
from ottla.metadata.ids import TopicPartition
from ottla.replica.errors import UnknownPartitionError
from ottla.replica.moves import Move
from ottla.replica.replicas import Replicas
from ottla.replica.throttle import LOOK_AGAIN_S, Throttle

log = logging.getLogger(__name__)

_STEP_BYTES = 512 << 10
_LAST_STEPS = 2
"""So many may be left when the loop does not wait any more."""


class Moving:
    def __init__(self, throttle: Throttle, clock: Clock, replicas: Replicas, scope: TaskScope) -> None:
        self._throttle = throttle
        self._clock = clock
        self._replicas = replicas
        self._scope = scope
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def resume(self, where: TopicPartition) -> None:
        """Go on with a move that was begun, if there is one and nobody is at it."""
        if where not in self._tasks and self._replicas.moves.of(where) is not None:
            task = self._scope.spawn(self._move(where), name=f"move of {where}")
            self._tasks[where] = task
            task.add_done_callback(lambda _: self._tasks.pop(where, None))

    def move(self, where: TopicPartition, target: LogDirectory) -> None:
        """Bring a replica into another directory. Raises what keeps it from that."""
        target.health.check()
        try:
            partition = self._replicas.partition(*where)
        except UnknownPartitionError:
            self._replicas.moves.prefer(where, target)
            raise
        if self._replicas.moves.begin(partition, target, now_ms=self._clock.wall_ms()):
            self.resume(where)

    async def _move(self, where: TopicPartition) -> None:
        log.info("%s moves to another log directory", where)
        try:
            while (move := self._replicas.moves.of(where)) is not None:
                step = await self._step(move)
                self._throttle.record(step)
                if step < _STEP_BYTES:
                    # Nearly there. What was copied is brought to the disk while others have their turn.
                    await self._flush(move)
                    if not self._finish(where, move):
                        continue
                    log.info("%s has moved to %s", where, move.target.path)
                    return
                # Even without a limit others have their turn: a log that is in the page cache never waits for the disk.
                await asyncio.sleep(0)
                while self._throttle.is_exceeded:  # noqa: ASYNC110 - it is time that lets go
                    await asyncio.sleep(LOOK_AGAIN_S)
        except Error as error:
            # A directory that fails says so itself; damage in the current log is for whoever reads it there.
            log.error("%s stays where it is: %s", where, error)  # noqa: TRY400 - what happened is in the message
            self._replicas.moves.end(where, now_ms=self._clock.wall_ms())

    async def _step(self, move: Move) -> int:
        found = move.next(_STEP_BYTES, now_ms=self._clock.wall_ms())
        if found is None:
            return 0
        data = await asyncio.get_running_loop().run_in_executor(None, found.read)
        move.take(data, now_ms=self._clock.wall_ms())
        return len(data)

    async def _flush(self, move: Move) -> None:
        flush, failure = move.future.begin_flush(), None
        try:
            await asyncio.get_running_loop().run_in_executor(None, flush.sync)
        except OSError as error:
            failure = error
        move.future.finish_flush(flush, now_ms=self._clock.wall_ms(), error=failure)

    def _finish(self, where: TopicPartition, move: Move) -> bool:
        """Copy what little is left and let the new log take over. No ``await`` in here."""
        now_ms = self._clock.wall_ms()
        if self._replicas.moves.of(where) is not move:
            return False
        for _ in range(_LAST_STEPS):
            found = move.next(_STEP_BYTES, now_ms=now_ms)
            if found is None:
                self._replicas.moves.finish(self._replicas.partition(*where), now_ms=now_ms)
                return True
            move.take(found.read(), now_ms=now_ms)
        return False
