"""When a partition flushes, what one flush serves, and what may be seen before it."""

from __future__ import annotations

import asyncio

from manual_ports import Hand, append, run, simulate, turns
from penstock.core.errors import (
    NotLeader,
)
from penstock.core.model import Durability
from penstock.core.topic_config import resolve
from sim.machine import Machine

FSYNC, INTERVAL, OS = ({"penstock_durability": word} for word in ("fsync", "interval", "os"))


# -- visible and acknowledged only when as durable as promised


def test_fsync_neither_shows_nor_acknowledges_before_the_flush_is_done() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        waiter = append(hand, partition)
        await turns()
        assert (partition.end_offset, partition.high_watermark) == (1, 0)
        assert partition.read(0, 1000) is None
        assert waiter.outcomes == []
        assert hand.disk.counters.file_syncs == 0
        hand.workers.do_next()
        assert waiter.is_acknowledged
        assert partition.high_watermark == partition.recovery_point == 1
        assert hand.disk.counters.file_syncs == 1
        assert partition.read(0, 1000) is not None

    run(test)


def test_what_was_acknowledged_survives_a_power_loss_and_what_was_not_may_be_gone() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        first = append(hand, partition)
        await hand.workers.do_all()
        second = append(hand, partition)
        await turns()
        hand.disk.crash()
        again = Hand(hand.disk.mount()).partition(**FSYNC)
        assert first.is_acknowledged and not second.outcomes
        assert again.end_offset >= 1

    run(test)


def test_one_flush_serves_all_that_came_in_the_same_turn() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        waiters = [append(hand, partition) for _ in range(50)]
        await turns()
        assert len(hand.workers.jobs) == 1
        hand.workers.do_next()
        assert all(waiter.is_acknowledged for waiter in waiters)
        assert hand.disk.counters.file_syncs == 1

    run(test)


def test_what_comes_during_a_flush_shares_the_next_one() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        early = append(hand, partition)
        await turns()
        late = [append(hand, partition) for _ in range(50)]
        await turns()
        assert len(hand.workers.jobs) == 1, "one flush at a time"
        hand.workers.do_next()
        assert early.is_acknowledged
        assert not any(waiter.outcomes for waiter in late), "they came after the flush began"
        hand.workers.do_next()
        assert all(waiter.is_acknowledged for waiter in late)
        assert hand.disk.counters.file_syncs == 2
        assert not hand.workers.jobs

    run(test)


def test_os_shows_and_acknowledges_at_once() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        waiter = append(hand, partition)
        assert waiter.is_acknowledged
        assert partition.high_watermark == 1
        assert partition.recovery_point == 0, "nobody flushed it"
        await turns()
        assert not hand.workers.jobs

    run(test)


def test_interval_shows_at_once_and_flushes_by_count() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(flush_messages="3", **INTERVAL)
        assert append(hand, partition, count=2).is_acknowledged
        assert not hand.workers.jobs
        append(hand, partition)
        hand.workers.do_next()
        assert partition.recovery_point == 3

    run(test)


def test_interval_flushes_when_its_time_has_passed_even_if_a_flush_is_under_way_then() -> None:
    async def test(machine: Machine) -> None:
        hand = Hand(machine.files)
        partition = hand.partition(flush_ms="50", **INTERVAL)
        append(hand, partition)
        await asyncio.sleep(0.049)
        assert not hand.workers.jobs
        await asyncio.sleep(0.002)
        append(hand, partition)
        await asyncio.sleep(0.1)
        assert len(hand.workers.jobs) == 1, "the second flush fell due while the first was under way"
        hand.workers.do_next()
        hand.workers.do_next()
        assert partition.recovery_point == 2
        partition.close(NotLeader("stopping"))

    simulate(test)


def test_a_shorter_interval_counts_at_once() -> None:
    async def test(machine: Machine) -> None:
        hand = Hand(machine.files)
        partition = hand.partition(flush_ms="1000000", **INTERVAL)
        append(hand, partition)
        partition.configure(resolve({"penstock.durability": "interval", "flush.ms": "10"}, {}))
        await asyncio.sleep(0.02)
        hand.workers.do_next()
        assert partition.recovery_point == 1
        partition.close(NotLeader("stopping"))

    simulate(test)


def test_a_flush_by_count_that_falls_due_during_a_flush_follows_it() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(flush_messages="1", **INTERVAL)
        append(hand, partition)
        append(hand, partition)
        assert len(hand.workers.jobs) == 1
        hand.workers.do_next()
        hand.workers.do_next()
        assert partition.recovery_point == 2
        assert not hand.workers.jobs

    run(test)


def test_a_topic_that_turns_from_os_to_fsync_flushes_what_it_has() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        append(hand, partition)
        partition.configure(resolve({"penstock.durability": "fsync"}, {}))
        hand.workers.do_next()
        assert partition.recovery_point == 1

    run(test)


def test_a_topic_that_turns_from_fsync_to_os_still_settles_who_waits() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        first = append(hand, partition)
        await turns()
        second = append(hand, partition)
        partition.configure(resolve({"penstock.durability": "os"}, {}))
        await hand.workers.do_all()
        assert first.is_acknowledged and second.is_acknowledged
        assert partition.recovery_point == 2
        assert partition.config.durability is Durability.OS

    run(test)


def test_flush_waits_for_what_was_written_before_it_and_for_no_more() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        append(hand, partition)
        await turns()
        append(hand, partition)
        flushed = asyncio.create_task(partition.sync_dirty())
        await turns()
        hand.workers.do_next()
        await turns()
        append(hand, partition)
        assert not flushed.done(), "the flush under way began before the second batch"
        hand.workers.do_next()
        await turns()
        assert flushed.done(), "a busy producer cannot keep it waiting for ever"

    run(test)
