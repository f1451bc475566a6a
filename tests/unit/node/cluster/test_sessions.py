"""The table of live sessions: one per name, and what followers see."""

from __future__ import annotations

import asyncio

from manual_ports import run, turns
from penstock.node.cluster.metadata_log import LiveSession
from penstock.node.cluster.sessions import Sessions


def test_numbers_tell_sessions_of_one_name_apart() -> None:
    async def test() -> None:
        table = Sessions()
        first = table.open("broker-1", 1)
        assert first is not None and table.open("broker-1", 1) is None
        first.end()
        second = table.open("broker-1", 1)
        assert second is not None and table.live == (LiveSession("broker-1", 1, 2),)
        first.end()
        table.end(first.live)
        assert second.is_alive and not first.is_alive

    run(test)


def test_a_slow_follower_sees_the_latest_state_and_a_cancelled_one_holds_nobody_up() -> None:
    async def test() -> None:
        table = Sessions()
        slow = table.follow()
        assert await anext(slow) == ()
        leaving = asyncio.ensure_future(_second(table))
        await turns()
        leaving.cancel()
        one, other = table.open("a", 1), table.open("b", 2)
        assert one is not None and other is not None
        one.end()
        assert await anext(slow) == (other.live,)

    run(test)


async def _second(table: Sessions) -> tuple[LiveSession, ...]:
    following = table.follow()
    await anext(following)
    return await anext(following)


def test_the_end_of_all_wakes_followers_even_if_there_was_none() -> None:
    async def test() -> None:
        table = Sessions()
        waiting = asyncio.ensure_future(_second(table))
        await turns()
        table.end_all()
        assert await waiting == ()

    run(test)
