from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.base.errors import ConfigError
from ottla.base.scope import TaskScope


async def forever(ended: list[str] | None = None, name: str = "") -> None:
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.append(name)


async def fail(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


def test_leaving_the_block_ends_the_children() -> None:
    ended: list[str] = []

    async def main() -> None:
        async with TaskScope("test") as scope:
            scope.spawn(forever(ended, "a"), name="a")
            scope.spawn(forever(ended, "b"), name="b")
            await asyncio.sleep(0)
            assert len(scope) == 2
        assert sorted(ended) == ["a", "b"]
        assert len(scope) == 0

    asyncio.run(main())


def test_a_child_that_cleans_up_slowly_is_waited_for() -> None:
    done = []

    async def slow() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.01)
            done.append(True)

    async def main() -> None:
        async with TaskScope() as scope:
            scope.spawn(slow())
            await asyncio.sleep(0)
        assert done

    asyncio.run(main())


def test_the_first_failure_leaves_the_block_as_itself_and_ends_the_siblings() -> None:
    ended: list[str] = []

    async def main() -> None:
        async with TaskScope("test") as scope:
            scope.spawn(forever(ended, "sibling"))
            scope.spawn(fail(ConfigError("no")), name="failing")
            await asyncio.Event().wait()

    with pytest.raises(ConfigError, match="no"):
        asyncio.run(main())
    assert ended == ["sibling"]


def test_a_failure_surfaces_even_if_the_block_ends_first() -> None:
    async def fails_on_the_way_out() -> None:
        try:
            await forever()
        finally:
            raise ConfigError("no")

    async def main() -> None:
        async with TaskScope() as scope:
            scope.spawn(fails_on_the_way_out())
            await asyncio.sleep(0)

    with pytest.raises(ConfigError):
        asyncio.run(main())


def test_later_failures_are_noted_on_the_first() -> None:
    async def main() -> None:
        async with TaskScope("test") as scope:
            scope.spawn(fail(ConfigError("first")))
            scope.spawn(fail(ValueError("second")), name="late")
            await asyncio.Event().wait()

    with pytest.raises(ConfigError, match="first") as caught:
        asyncio.run(main())
    assert "late failed with ValueError('second')" in caught.value.__notes__[0]


def test_the_error_of_the_block_goes_before_that_of_a_child() -> None:
    async def main() -> None:
        async with TaskScope("test") as scope:
            scope.spawn(fail(ConfigError("child")))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("block") from None

    with pytest.raises(ValueError, match="block") as caught:
        asyncio.run(main())
    assert "ConfigError('child')" in caught.value.__notes__[0]


def test_a_failure_does_not_leave_the_task_cancelled() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError):
            async with TaskScope() as scope:
                scope.spawn(fail(ConfigError("no")))
                await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(main())


def test_cancellation_reaches_the_children_and_the_caller() -> None:
    ended: list[str] = []

    async def body() -> None:
        async with TaskScope() as scope:
            scope.spawn(forever(ended, "child"))
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(body())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert ended == ["child"]

    asyncio.run(main())


def test_cancellation_while_the_scope_waits_for_its_children_is_not_swallowed() -> None:
    release = asyncio.Event()
    finished = []

    async def stubborn() -> None:
        try:
            await forever()
        finally:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            finished.append(True)

    async def body() -> None:
        async with TaskScope() as scope:
            scope.spawn(stubborn())
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(body())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert finished

    asyncio.run(main())


def test_a_failure_that_cancellation_overtakes_is_reported() -> None:
    reported: list[dict[str, Any]] = []

    async def fails_on_the_way_out() -> None:
        try:
            await forever()
        finally:
            raise ConfigError("no")

    async def body() -> None:
        async with TaskScope("test") as scope:
            scope.spawn(fails_on_the_way_out())
            await asyncio.Event().wait()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        task = asyncio.create_task(body())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [type(context["exception"]) for context in reported] == [ConfigError]


def test_a_timeout_around_a_scope_is_a_timeout() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), TaskScope() as scope:
                scope.spawn(forever())
                await asyncio.Event().wait()

    asyncio.run(main())


def test_wait_returns_when_the_children_have_ended() -> None:
    results = []

    async def child(number: int) -> None:
        await asyncio.sleep(0)
        results.append(number)

    async def main() -> None:
        async with TaskScope() as scope:
            for number in range(3):
                scope.spawn(child(number))
            await scope.wait()
            assert sorted(results) == [0, 1, 2]
            task = scope.spawn(asyncio.sleep(0, "value"))
            assert await task == "value"

    asyncio.run(main())


def test_cancel_ends_the_children_and_leaves_the_block_alone() -> None:
    async def main() -> None:
        async with TaskScope() as scope:
            scope.spawn(forever())
            await asyncio.sleep(0)
            scope.cancel()
            await scope.wait()
            assert len(scope) == 0

    asyncio.run(main())


def test_scopes_nest() -> None:
    ended: list[str] = []

    async def inner() -> None:
        async with TaskScope("inner") as scope:
            scope.spawn(forever(ended, "grandchild"))
            await asyncio.Event().wait()

    async def main() -> None:
        async with TaskScope("outer") as scope:
            scope.spawn(inner())
            await asyncio.sleep(0.01)
            scope.spawn(fail(ConfigError("no")))
            await asyncio.Event().wait()

    with pytest.raises(ConfigError):
        asyncio.run(main())
    assert ended == ["grandchild"]


def test_a_closed_scope_takes_no_more_tasks() -> None:
    async def main() -> None:
        async with TaskScope("test") as scope:
            pass
        with pytest.raises(RuntimeError, match="'test' is not open"):
            scope.spawn(forever())

    asyncio.run(main())
