"""Sessions held at another process, on virtual time: they end here in time, whatever the store says later."""

from __future__ import annotations

import asyncio

from penstock.node.cluster.metadata_log import LiveSession
from penstock.node.cluster.remote_sessions import HeldSessions, RemoteSession
from sim.loop import SimLoop, run

ONE, OTHER = LiveSession("broker-1", 1, 7), LiveSession("controller", 1, 8)


def test_a_deadline_that_passed_cannot_be_moved() -> None:
    async def scene(loop: SimLoop) -> None:
        ended: list[LiveSession] = []
        held = HeldSessions()
        one = RemoteSession(ONE, loop.time() + 5, lambda session: ended.append(session.live))
        other = RemoteSession(OTHER, loop.time() + 5, lambda session: ended.append(session.live))
        held.add(one)
        held.add(other)
        await asyncio.sleep(3)
        held.renewed((ONE, OTHER), (7, 8), loop.time() + 5)
        await asyncio.sleep(4)
        held.renewed((ONE,), (7,), loop.time() + 5)
        await other.ended()
        assert loop.time() == 8 and held.live == (ONE,)
        held.renewed((ONE, OTHER), (7, 8), loop.time() + 50)
        assert one.is_alive and not other.is_alive
        assert ended == [], "the store need not be told what its clock tells it"
        one.end()
        one.end()
        assert ended == [ONE] and held.live == ()

    run(1, scene)


def test_what_the_store_does_not_name_has_ended() -> None:
    async def scene(loop: SimLoop) -> None:
        held = HeldSessions()
        one, other, third = (
            RemoteSession(LiveSession("x", 1, number), loop.time() + 5, lambda session: None)
            for number in (1, 2, 3)
        )
        for session in (one, other, third):
            held.add(session)
        held.renewed((one.live, other.live), (1,), loop.time() + 5)
        assert [session.is_alive for session in (one, other, third)] == [True, False, True]
        held.retain([one.live])
        assert [session.is_alive for session in (one, other, third)] == [True, False, False]
        held.settle_all()
        await one.ended()

    run(1, scene)
