"""Callers get room in the order in which they came; a cancelled one takes none."""

from __future__ import annotations

import asyncio

from penstock.apps.gateways.in_flight import InFlight


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_room_is_given_in_order() -> None:
    async def run() -> None:
        room = InFlight(10, 100)
        await room.reserve(8, 10)
        large = asyncio.ensure_future(room.reserve(5, 10))
        small = asyncio.ensure_future(room.reserve(1, 10))
        await settled()
        assert not large.done()
        assert not small.done(), "the small one does not overtake"
        room.release(8, 10)
        await settled()
        assert large.done()
        assert small.done()
        assert (room.records, room.bytes) == (6, 20)

    asyncio.run(run())


def test_a_request_above_the_limit_passes_alone() -> None:
    async def run() -> None:
        room = InFlight(10, 100)
        await room.reserve(50, 1_000)
        other = asyncio.ensure_future(room.reserve(1, 1))
        await settled()
        assert not other.done()
        room.release(50, 1_000)
        await other

    asyncio.run(run())


def test_a_cancelled_wait_reserves_nothing() -> None:
    async def run() -> None:
        room = InFlight(10, 100)
        await room.reserve(10, 10)
        gone = asyncio.ensure_future(room.reserve(5, 5))
        next_one = asyncio.ensure_future(room.reserve(2, 5))
        await settled()
        gone.cancel()
        await settled()
        room.release(10, 10)
        await next_one
        assert (room.records, room.bytes) == (2, 5)

    asyncio.run(run())


def test_a_wait_cancelled_with_its_room_gives_it_back() -> None:
    async def run() -> None:
        room = InFlight(10, 100)
        await room.reserve(10, 10)
        gone = asyncio.ensure_future(room.reserve(5, 5))
        await settled()
        room.release(10, 10)  # the wait is over, but its task has not run yet
        gone.cancel()
        await settled()
        assert (room.records, room.bytes) == (0, 0)

    asyncio.run(run())
