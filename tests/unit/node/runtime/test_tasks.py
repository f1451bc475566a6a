"""Tasks that nobody awaits are kept, reported when they crash, and ended together."""

from __future__ import annotations

import asyncio
import gc

import pytest

from manual_ports import run, turns
from penstock.node.runtime.tasks import Tasks


def test_a_crash_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[BaseException] = []

    async def crash() -> None:
        raise LookupError("gone")

    async def test() -> None:
        tasks = Tasks()
        tasks.spawn(crash(), told.append)
        tasks.spawn(crash())
        await turns()

    run(test)
    assert [str(error) for error in told] == ["gone"]
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [repr(error) for error in logged] == ["LookupError('gone')"] * 2


def test_a_running_task_is_not_collected() -> None:
    async def test() -> None:
        tasks, ended = Tasks(), []

        async def work() -> None:
            await asyncio.get_running_loop().run_in_executor(None, gc.collect)
            ended.append(True)

        tasks.spawn(work(), lambda error: None)
        while not ended:
            gc.collect()
            await asyncio.sleep(0)

    run(test)


def test_stopping_cancels_and_waits(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        tasks, cleaned = Tasks(), []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.append(True)

        tasks.spawn(work(), lambda error: pytest.fail("a cancelled task did not crash"))
        await turns()
        await tasks.stop()
        assert cleaned == [True]

    run(test)
    assert not caplog.records
