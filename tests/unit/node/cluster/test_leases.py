"""Sessions with a time limit, on virtual time: renewal, expiry, and restarts of the store."""

from __future__ import annotations

import asyncio

import pytest

from manual_ports import Hand, PromptWorkers
from penstock.node.cluster.leases import SESSIONS_FILE, Leases
from penstock.node.cluster.metadata_log import LiveSession
from sim.loop import SimLoop, run


def leases(hand: Hand, ttl_s: float = 6.0) -> Leases:
    return Leases(hand.runtime, ttl_s)


def opened(table: Leases, name: str = "broker-1", token: bytes = b"t") -> LiveSession:
    live = table.open(name, 1, token)
    assert live is not None
    return live


def test_a_session_lasts_as_long_as_it_is_renewed() -> None:
    async def scene(loop: SimLoop) -> None:
        table = leases(Hand(workers=PromptWorkers()))
        live = opened(table)
        for _ in range(5):
            await asyncio.sleep(5)
            assert table.renew(live)
        await asyncio.sleep(6.5)
        assert table.table.live == (live,) and table.renew(live), "due, but renewed before it was given up"
        await asyncio.sleep(8)
        assert table.table.live == () and not table.renew(live)
        again = opened(table)
        assert again.number > live.number

    run(1, scene)


def test_a_request_that_is_repeated_opens_one_session() -> None:
    async def scene(loop: SimLoop) -> None:
        table = leases(Hand(workers=PromptWorkers()))
        live = opened(table)
        assert table.open("broker-1", 1, b"t") == live and table.open("broker-1", 1, b"u") is None
        table.end(live)
        table.end(live)
        assert opened(table, token=b"u") != live

    run(1, scene)


def test_a_restart_gives_every_holder_its_full_time() -> None:
    async def scene(loop: SimLoop) -> None:
        hand = Hand(workers=PromptWorkers())
        table = leases(hand)
        one, other = opened(table), opened(table, "controller")
        table.end(other)
        await asyncio.sleep(5)
        table.close()
        table = leases(hand)
        assert table.table.live == (one,)
        assert table.open("broker-1", 1, b"t") == one, "its token is known as well"
        await asyncio.sleep(5)
        assert table.renew(one)
        assert opened(table, "controller").number > other.number
        await asyncio.sleep(10)
        assert table.table.live == ()

    run(1, scene)


def test_a_damaged_file_ends_the_sessions_and_numbers_still_grow(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(loop: SimLoop) -> None:
        hand = Hand(workers=PromptWorkers())
        live = opened(leases(hand))
        hand.files.write_whole(SESSIONS_FILE, b"torn")
        hand.clock.ms += 10
        table = leases(hand)
        assert table.table.live == () and "must open theirs again" in caplog.text
        assert opened(table).number > live.number

    run(1, scene)


def test_a_full_disk_ends_no_session(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(loop: SimLoop) -> None:
        hand = Hand(workers=PromptWorkers())
        table = leases(hand)
        hand.disk.fill_after(0)
        live = opened(table)
        assert table.renew(live) and "cannot save the live sessions" in caplog.text

    run(1, scene)
