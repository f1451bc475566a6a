"""The model store behind a network: what cuts and resets do to appends, followers and sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contract.metadata_contract import topic
from penstock.core.errors import MetadataUnavailable, TimedOut
from penstock.node.cluster.metadata_log import SESSION_TTL_S, BrokerSession, Conflict, Entry
from sim.loop import SimLoop, run
from sim.metadata_host import NAME, NetMetadataLog, StoreHost
from sim.metadata_model import ModelStore

Scene = Callable[[SimLoop, StoreHost, NetMetadataLog], Coroutine[Any, Any, None]]


def on_a_broker(scene: Scene) -> None:
    """Run a scene on the host of a broker that is connected."""

    async def main(loop: SimLoop) -> None:
        server = StoreHost(loop, ModelStore())

        async def live() -> None:
            log = NetMetadataLog(server)
            await log.open()
            await scene(loop, server, log)

        await loop.spawn("broker", live())

    run(1, main)


async def opened(log: NetMetadataLog, name: str = "broker-1") -> BrokerSession:
    session = await log.session(name, 1)
    assert not isinstance(session, Conflict)
    return session


def test_what_is_appended_is_read_and_followed() -> None:
    async def scene(loop: SimLoop, server: StoreHost, log: NetMetadataLog) -> None:
        following = log.follow(0)
        assert await log.append(0, [topic(1)]) == 1
        assert await log.append(0, [topic(2)]) == Conflict(1)
        assert list(await log.read(0)) == [Entry(1, (topic(1),))]
        assert await anext(following) == Entry(1, (topic(1),))

    on_a_broker(scene)


def test_an_append_that_a_cut_holds_up_takes_effect_after_its_broker_gave_up() -> None:
    async def scene(loop: SimLoop, server: StoreHost, log: NetMetadataLog) -> None:
        loop.net.cut("broker", NAME)
        with pytest.raises(TimedOut):
            await log.append(0, [topic(1)])
        assert server.store.end_index == 0
        loop.net.heal()
        await asyncio.sleep(1)
        assert server.store.end_index == 1

    on_a_broker(scene)


def test_an_append_whose_answer_is_cut_off_has_taken_effect() -> None:
    async def scene(loop: SimLoop, server: StoreHost, log: NetMetadataLog) -> None:
        loop.net.cut(NAME, "broker", one_way=True)
        with pytest.raises(TimedOut):
            await log.append(0, [topic(1)])
        assert server.store.end_index == 1

    on_a_broker(scene)


def test_without_a_connection_nothing_was_changed() -> None:
    async def scene(loop: SimLoop, server: StoreHost, log: NetMetadataLog) -> None:
        loop.net.cut("broker", NAME)
        server.reset("broker")
        with pytest.raises(MetadataUnavailable):
            await log.append(0, [topic(1)])
        loop.net.heal()
        assert await log.append(0, [topic(2)]) == 1

    on_a_broker(scene)


def test_followers_survive_a_reset() -> None:
    async def scene(loop: SimLoop, server: StoreHost, log: NetMetadataLog) -> None:
        following = log.follow(0)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(1)
        server.reset("broker")
        await asyncio.sleep(1)
        server.store.take(0, (topic(1),))
        assert await waiting == Entry(1, (topic(1),))

    on_a_broker(scene)


def test_a_session_lives_as_long_as_it_is_renewed_and_ends_here_first() -> None:
    async def scene(loop: SimLoop, server: StoreHost, log: NetMetadataLog) -> None:
        session = await opened(log)
        await asyncio.sleep(5 * SESSION_TTL_S)
        assert session.is_alive and server.store.sessions.find("broker-1") is not None
        loop.net.cut("broker", NAME)
        await session.ended()
        assert server.store.sessions.find("broker-1") is not None, "others still take it for alive"
        await asyncio.sleep(SESSION_TTL_S)
        assert len(server.store.sessions.live) == 0
        loop.net.heal()
        assert (await opened(log)).live.number > session.live.number

    on_a_broker(scene)


def test_a_session_that_the_store_gives_up_ends_at_its_holder() -> None:
    async def scene(loop: SimLoop, server: StoreHost, log: NetMetadataLog) -> None:
        session = await opened(log)
        assert isinstance(await log.session("broker-1", 2), Conflict)
        server.expire(session.live)
        async with asyncio.timeout(1):
            await session.ended()
        again = await opened(log)
        await log.close()
        assert not again.is_alive and server.store.sessions.live == ()

    on_a_broker(scene)
