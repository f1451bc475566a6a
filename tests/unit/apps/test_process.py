"""What server processes share: work that a signal to stop interrupts."""

from __future__ import annotations

import asyncio

import pytest

from penstock.apps.process import done_before


def test_work_that_is_done_first_counts() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    async def scene() -> None:
        assert await done_before(asyncio.Event(), work())

    asyncio.run(scene())


def test_a_signal_cancels_the_work_and_waits_for_its_end() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def scene() -> None:
        stopping = asyncio.Event()
        asyncio.get_running_loop().call_soon(stopping.set)
        assert not await done_before(stopping, work())
        assert ended == [True]

    asyncio.run(scene())


def test_a_failure_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise OSError("no")

    async def scene() -> None:
        with pytest.raises(OSError, match="no"):
            await done_before(asyncio.Event(), work())

    asyncio.run(scene())
