"""Retention of one partition: what goes when, and what it leaves alone."""

from __future__ import annotations

import asyncio

from manual_ports import Hand, append, run
from penstock.node.replicas.upkeep import retain_partition

OS = {"penstock_durability": "os"}


def test_retention_closes_the_last_segment_and_drops_it_the_next_time() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(retention_ms="1000", **OS)
        append(hand, partition)
        hand.clock.ms += 5_000
        retain_partition(hand.runtime, partition, 10**9)
        assert [segment.size > 0 for segment in partition.log.segments] == [True, False]
        assert partition.start_offset == 0
        await hand.workers.do_all()
        retain_partition(hand.runtime, partition, 10**9)
        assert len(partition.log.segments) == 1
        assert partition.start_offset == partition.end_offset == 1

    run(test)


def test_files_that_retention_removed_do_not_hinder_a_flush() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(segment_bytes="1024", retention_bytes="2000", **OS)
        for _ in range(10):
            append(hand, partition, size=500)
        retain_partition(hand.runtime, partition, 10**9)
        assert partition.start_offset > 0
        settled = asyncio.create_task(partition.settle())
        await hand.workers.do_all()
        assert await settled
        assert partition.recovery_point == 10

    run(test)


def test_silent_producers_are_forgotten() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        append(hand, partition, producer_id=1, producer_epoch=0, sequence=0)
        assert len(partition.log.producers) == 1
        hand.clock.ms += 101
        retain_partition(hand.runtime, partition, 100)
        assert len(partition.log.producers) == 0

    run(test)
