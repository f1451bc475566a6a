"""One replica: its role, what is flushed and what is committed, who is told, and what a failure does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from log_samples import filled_batch
from manual_ports import Hand, Waiter, append, run, simulate, turns
from penstock.core.errors import (
    CorruptBatch,
    DiskFailed,
    DiskFull,
    NotLeader,
    Offline,
    OffsetOutOfRange,
    OutOfOrder,
    TimedOut,
    UnknownEpoch,
)
from penstock.core.records.batch import decode_header
from penstock.node.replicas.partition import Partition
from sim.machine import Machine

FSYNC, OS = ({"penstock_durability": word} for word in ("fsync", "os"))


# -- failure


def test_a_failed_flush_takes_the_partition_offline_for_good(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        before = append(hand, partition)
        await hand.workers.do_all()
        hand.disk.fail_sync_at(1)
        waiters = [append(hand, partition) for _ in range(3)]
        listened: list[bool] = []
        partition.add_listener(lambda: listened.append(True))
        await turns()
        hand.workers.do_next()
        assert before.is_acknowledged
        assert [type(waiter.outcomes[0]) for waiter in waiters] == [Offline] * 3
        assert listened, "a reader that waits is told"
        assert partition.high_watermark == partition.recovery_point == 1
        syncs = hand.disk.counters.file_syncs
        for call in (lambda: partition.append(hand.batch()), lambda: partition.read(0, 100)):
            with pytest.raises(Offline):
                call()
        late = Waiter()
        partition.when_committed(1, late)
        assert type(late.outcomes[0]) is Offline
        await partition.sync_dirty()
        partition.start_sync()
        await turns()
        assert not hand.workers.jobs and hand.disk.counters.file_syncs == syncs, "it is never tried again"

    run(test)
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]


def test_a_flush_that_crashes_is_no_flush() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        waiter = append(hand, partition)
        await turns()
        _, done = hand.workers.jobs.popleft()
        with pytest.raises(MemoryError):
            done(MemoryError())
        assert type(waiter.outcomes[0]) is Offline
        assert isinstance(partition.failure, DiskFailed)
        assert partition.high_watermark == 0

    run(test)


def test_a_write_that_fails_takes_the_partition_offline() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        append(hand, partition)
        await hand.workers.do_all()
        hand.disk.read_only = True
        with pytest.raises(DiskFailed):
            partition.append(hand.batch())
        assert partition.failure is not None

    run(test)


def test_a_full_disk_refuses_the_batch_and_nothing_else() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        append(hand, partition)
        await hand.workers.do_all()
        hand.disk.fill_after(10)
        with pytest.raises(DiskFull):
            partition.append(hand.batch())
        assert partition.failure is None
        assert (partition.end_offset, partition.log.size()) == (1, partition.log.segments[-1].file.size())
        assert partition.read(0, 1000) is not None
        hand.disk.enlarge()
        waiter = append(hand, partition)
        await hand.workers.do_all()
        assert waiter.is_acknowledged and partition.high_watermark == 2

    run(test)


def test_closing_tells_everybody_who_waits() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        waiter = append(hand, partition)
        await turns()
        gone = NotLeader("stopping")
        partition.close(gone)
        hand.workers.do_next()
        assert waiter.outcomes == [gone]

    run(test)


# -- listeners


def test_a_listener_is_called_once_for_many_changes_and_not_after_it_left() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        calls: list[int] = []
        listener = lambda: calls.append(partition.high_watermark)  # noqa: E731
        partition.add_listener(listener)
        append(hand, partition)
        append(hand, partition)
        await turns()
        assert calls == [2]
        partition.remove_listener(listener)
        append(hand, partition)
        await turns()
        assert calls == [2]

    run(test)


def test_listeners_for_appends_are_told_before_anything_is_flushed() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        appends: list[int] = []
        watermarks: list[int] = []
        told = lambda: appends.append(partition.end_offset)  # noqa: E731
        partition.add_append_listener(told)
        partition.add_listener(lambda: watermarks.append(partition.high_watermark))
        append(hand, partition)
        append(hand, partition)
        await turns()
        assert (appends, watermarks) == ([2], [])
        hand.workers.do_next()
        await turns()
        assert (appends, watermarks) == ([2], [2])
        partition.remove_append_listener(told)
        append(hand, partition)
        await turns()
        assert appends == [2]

    run(test)


# -- the role


def test_a_flush_is_committed_before_anybody_is_told_of_it() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        appended = partition.append(hand.batch())
        seen: list[int] = []
        partition.when_flushed(appended.end_offset, lambda _: seen.append(partition.high_watermark))
        await hand.workers.do_all()
        assert seen == [appended.end_offset]

    run(test)


def leader_batches(hand: Hand, *sizes: int, epoch: int = 0, start: int = 0) -> list[memoryview]:
    """Batches as a leader has written them, one record of each size."""
    made = []
    for number, size in enumerate(sizes):
        batch = filled_batch(1, b"x" * size, time_ms=hand.clock.ms)
        batch[0:8] = (start + number).to_bytes(8)
        batch[12:16] = epoch.to_bytes(4)
        made.append(memoryview(batch))
    return made


def stored(partition: Partition) -> list[bytes]:
    """The batches in the log, committed or not."""
    return [
        bytes(found.raw)
        for segment in partition.log.segments
        for found in segment.walk(0, segment.size, verify=True)
    ]


def test_without_a_role_nothing_is_taken() -> None:
    async def test() -> None:
        hand = Hand()
        replica = hand.replica()
        with pytest.raises(NotLeader):
            replica.append(hand.batch())
        with pytest.raises(NotLeader):
            replica.append_own(bytearray(hand.batch()))
        with pytest.raises(UnknownEpoch):
            replica.append_replicated(*leader_batches(hand, 10))
        assert replica.end_offset == 0

    run(test)


def test_a_follower_keeps_the_bytes_and_is_told_what_is_committed() -> None:
    async def test() -> None:
        hand = Hand()
        replica = hand.replica(**FSYNC)
        replica.follow(3)
        batches = leader_batches(hand, 10, 300, 20, epoch=2)
        copies = [bytes(batch) for batch in batches]
        assert [replica.append_replicated(batch) for batch in batches] == [1, 2, 3]
        assert stored(replica) == copies
        await turns()
        assert replica.flushed_offset == 0
        hand.workers.do_next()
        assert (replica.flushed_offset, replica.high_watermark) == (3, 0), "the leader commits"
        assert replica.recovery_point == 0
        waiter = Waiter()
        replica.when_committed(2, waiter)
        replica.advance_high_watermark(1)
        assert replica.read(1, 1000) is None and not waiter.outcomes
        replica.advance_high_watermark(2)
        assert waiter.is_acknowledged and replica.recovery_point == 2
        found = replica.read(0, 10_000)
        assert found is not None and found.read() == b"".join(copies[:2])

    run(test)


def test_a_follower_of_a_topic_that_does_not_flush_counts_what_it_has() -> None:
    async def test() -> None:
        hand = Hand()
        replica = hand.replica(**OS)
        replica.follow(0)
        replica.append_replicated(*leader_batches(hand, 10))
        assert (replica.flushed_offset, replica.high_watermark, replica.log.synced_offset) == (1, 0, 0)

    run(test)


def test_what_a_follower_refuses() -> None:
    async def test() -> None:
        hand = Hand()
        replica = hand.replica(**OS)
        replica.follow(4)
        (damaged,) = leader_batches(hand, 10)
        damaged[70] ^= 1
        with pytest.raises(CorruptBatch):
            replica.append_replicated(damaged)
        with pytest.raises(OffsetOutOfRange):
            replica.append_replicated(*leader_batches(hand, 10, start=1))
        with pytest.raises(UnknownEpoch):
            replica.append_replicated(*leader_batches(hand, 10, epoch=5))
        assert (replica.end_offset, replica.failure) == (0, None)

    run(test)


def test_a_follower_refuses_no_sequence_and_knows_it_once_it_leads() -> None:
    async def test() -> None:
        hand = Hand()
        replica = hand.replica(**OS)
        replica.follow(0)
        for sequence in (5, 40):
            batch = hand.batch(producer_id=7, producer_epoch=0, sequence=sequence)
            batch[0:8] = replica.end_offset.to_bytes(8)
            batch[12:16] = bytes(4)
            replica.append_replicated(batch)
        replica.lead(1)
        with pytest.raises(OutOfOrder):
            replica.append(hand.batch(producer_id=7, producer_epoch=0, sequence=6))
        again = replica.append(hand.batch(producer_id=7, producer_epoch=0, sequence=40))
        assert again.base_offset == 1, "it was written before"
        replica.append(hand.batch(producer_id=7, producer_epoch=0, sequence=41))
        assert [decode_header(raw).leader_epoch for raw in stored(replica)] == [0, 0, 1]

    run(test)


def test_a_new_leader_knows_where_its_epoch_begins_before_it_writes() -> None:
    async def test() -> None:
        hand = Hand()
        replica = hand.replica(**OS)
        replica.follow(2)
        replica.append_replicated(*leader_batches(hand, 10, epoch=2))
        replica.lead(6)
        assert replica.epoch_end(2) == (2, 1) and replica.epoch_end(6) == (6, 1)
        assert replica.high_watermark == 1, "there is no other replica"

    run(test)


def test_who_waits_for_a_leader_that_follows_now_is_told_at_once() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        waiter, flushed = append(hand, partition), Waiter()
        partition.when_flushed(1, flushed)
        partition.follow(1)
        assert [type(one.outcomes[0]) for one in (waiter, flushed)] == [NotLeader, NotLeader]
        with pytest.raises(NotLeader):
            partition.append(hand.batch())

    run(test)


# -- truncation


def test_a_sync_that_returns_after_a_truncation_acknowledges_nothing() -> None:
    """The records that were synced are gone, and those in their place were not synced."""

    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        append(hand, partition)
        await hand.workers.do_all()
        gone = append(hand, partition, size=30)
        await turns()
        assert len(hand.workers.jobs) == 1, "its sync is under way"
        partition.truncate(1)
        assert [type(one) for one in gone.outcomes] == [NotLeader]
        new = append(hand, partition, size=50)
        hand.workers.do_next()
        assert not new.outcomes and partition.read(1, 1000) is None
        assert partition.flushed_offset == partition.high_watermark == partition.recovery_point == 1
        await hand.workers.do_all()
        assert new.is_acknowledged
        assert partition.flushed_offset == partition.high_watermark == partition.recovery_point == 2
        acknowledged = stored(partition)
        hand.disk.crash()
        assert stored(Hand(hand.disk.mount()).replica()) == acknowledged

    run(test)


def test_a_follower_reports_no_sync_of_what_it_truncated() -> None:
    async def test() -> None:
        hand = Hand()
        replica = hand.replica(**FSYNC)
        replica.follow(0)
        for batch in leader_batches(hand, 10, 20, 30):
            replica.append_replicated(batch)
        await turns()
        replica.follow(1)
        replica.truncate(1)
        replica.append_replicated(*leader_batches(hand, 99, epoch=1, start=1))
        hand.workers.do_next()
        assert replica.flushed_offset == 0
        await hand.workers.do_all()
        assert replica.flushed_offset == 2

    run(test)


def test_who_waits_for_the_disk_is_told_that_the_records_are_gone() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        append(hand, partition)
        append(hand, partition)
        waiting = asyncio.create_task(partition.sync_to(2))
        await turns()
        partition.truncate(1)
        await hand.workers.do_all()
        with pytest.raises(NotLeader):
            await waiting
        assert partition.log.synced_offset == 1, "a sync that was truncated is followed by another"

    run(test)


# -- deadlines


@pytest.mark.parametrize("wait", [Partition.when_flushed, Partition.when_committed])
def test_who_waits_too_long_is_told_so_and_the_record_is_kept(wait: Callable[..., None]) -> None:
    async def test(machine: Machine) -> None:
        hand = Hand(machine.files)
        partition = hand.partition(**FSYNC)
        late, patient, forever = Waiter(), Waiter(), Waiter()
        partition.append(hand.batch())
        for waiter, timeout_ms in ((patient, 60_000), (late, 100), (forever, 0)):
            wait(partition, 1, waiter, timeout_ms)
        await asyncio.sleep(0.099)
        assert not late.outcomes
        await asyncio.sleep(0.05)
        assert [type(one) for one in late.outcomes] == [TimedOut]
        assert not patient.outcomes and not forever.outcomes
        hand.workers.do_next()
        assert patient.is_acknowledged and forever.is_acknowledged and len(late.outcomes) == 1
        assert partition.high_watermark == 1
        partition.close(NotLeader("stopping"))

    simulate(test)
