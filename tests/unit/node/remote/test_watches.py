"""Readers that wait at another broker share its polls, and none of them waits behind the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from cluster_client import leader_id, make_topic, prepared, put, values
from cluster_nodes import ClusterNodes, on_a_cluster
from penstock.node.remote import watches
from penstock.node.waist.reader import Wanted


def play(test: Callable[[ClusterNodes], Any], seed: int = 1) -> None:
    on_a_cluster(test, seed=seed, has_doors=True)


def test_many_waiting_readers_share_a_few_long_polls() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        waiting = [await client.start_read(Wanted("orders", 0, 0, wait_ms=300_000)) for _ in range(300)]
        await asyncio.sleep(5)
        meter = nodes.brokers[client.broker_id].runtime.meters.link(leader_id(nodes, "orders"))
        before = meter.calls
        await asyncio.sleep(10)
        assert meter.calls - before <= 11 * watches.WATCHES_MAX
        await put(partition, b"x")
        before = meter.calls
        assert {tuple(values(await one)) for one in waiting} == {(b"x",)}
        assert meter.calls - before <= 2 * watches.WATCHES_MAX, "the long polls brought the record"

    play(test)


def test_who_comes_while_all_long_polls_wait_is_not_behind_them() -> None:
    async def test(nodes: ClusterNodes) -> None:
        partition, (client, _) = await prepared(nodes)
        loop = asyncio.get_running_loop()
        await make_topic(nodes, "more", 6)
        leader = leader_id(nodes, "orders")
        index = next(one for one in range(6) if leader_id(nodes, "more", one) == leader)
        other = nodes.brokers[leader].partition("more", index)
        for _ in range(watches.WATCHES_MAX):  # one poll each: they come one after the other
            await client.start_read(Wanted("orders", 0, 0, wait_ms=600_000))
            await asyncio.sleep(0.05)
        for offset in range(10):
            waiting = await client.start_read(Wanted("more", index, offset, wait_ms=600_000))
            await asyncio.sleep(0.1)
            before = loop.time()
            await put(other, b"x")
            assert values(await waiting) == [b"x"]
            assert loop.time() - before < watches.WATCH_MS / 4_000, "on virtual time"
        assert partition.high_watermark == 0, "the others wait all the while"

    play(test)
