"""The owner of a partition: what is visible when, what one flush serves, and what a failure does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from log_samples import keyed_batch, opaque_batch, with_header
from manual_ports import NOW_MS, Hand, append, run, turns
from penstock.core.errors import (
    AgainstPolicy,
    CorruptBatch,
    DiskFull,
    Fenced,
    InvalidRecord,
    InvalidTimestamp,
    NotEnoughReplicas,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrder,
    StaleProducer,
    TooLarge,
    UnknownEpoch,
)
from penstock.core.model import Acks
from penstock.core.records.build import open_batches

FSYNC, INTERVAL, OS = ({"penstock_durability": word} for word in ("fsync", "interval", "os"))
COMPACT = {"cleanup_policy": "compact"}


# -- what is refused


def refused(
    error: type[Exception], batch: Callable[[Hand], object], acks: int = Acks.ALL, **overrides: str
) -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**overrides)
        with pytest.raises(error):
            partition.append(memoryview(batch(hand)), acks)  # type: ignore[arg-type]
        assert partition.end_offset == 0
        assert partition.failure is None

    run(test)


def test_refusals() -> None:
    refused(NotEnoughReplicas, Hand.batch, min_insync_replicas="2")
    refused(TooLarge, lambda hand: hand.batch(size=2000), max_message_bytes="1000")
    refused(CorruptBatch, lambda hand: bytes(hand.batch())[:-1] + b"?")
    refused(InvalidRecord, lambda hand: bytes(hand.batch()) * 2)
    refused(InvalidTimestamp, lambda hand: hand.batch(time_ms=NOW_MS + 10**10))
    refused(InvalidTimestamp, lambda hand: hand.batch(time_ms=5), message_timestamp_before_max_ms="1000")
    refused(InvalidRecord, lambda hand: keyed_batch([(b"a", b""), (None, b"")]), **COMPACT)
    refused(InvalidRecord, lambda _: opaque_batch(time_ms=NOW_MS))


def test_fewer_replicas_matter_only_to_who_asks_for_all() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(min_insync_replicas="2", **OS)
        assert partition.append(hand.batch(), Acks.LEADER).base_offset == 0

    run(test)


def test_a_batch_that_grows_beyond_the_limit_when_it_is_unfolded_is_refused() -> None:
    batch = keyed_batch([(b"k", b"v" * 5_000)], time_ms=NOW_MS, codec=1)
    assert len(batch) < 1_000
    refused(TooLarge, lambda _: batch, max_message_bytes="1000", compression_type="uncompressed")


def test_append_time_is_stamped_and_told() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(message_timestamp_type="LogAppendTime", **OS)
        batch = memoryview(keyed_batch([(b"k", b"v"), (b"k", b"w")], time_ms=5))
        assert partition.append(batch) == (0, 2, NOW_MS)
        run_ = partition.read(0, 1000)
        assert run_ is not None
        assert [record.timestamp_ms for record in open_batches(run_.read())] == [NOW_MS] * 2

    run(test)


# -- producers that repeat themselves


def test_a_repeated_batch_has_its_first_offset_and_waits_for_durability_too() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        ids = {"producer_id": 7, "producer_epoch": 0, "sequence": 0}
        first, again = append(hand, partition, **ids), append(hand, partition, **ids)
        await turns()
        assert partition.end_offset == 1
        assert not first.outcomes and not again.outcomes
        hand.workers.do_next()
        assert first.is_acknowledged and again.is_acknowledged
        assert partition.append(hand.batch(**ids)).base_offset == 0
        with pytest.raises(OutOfOrder):
            partition.append(hand.batch(**{**ids, "sequence": 5}))
        partition.append(hand.batch(**{**ids, "producer_epoch": 1}))
        with pytest.raises(StaleProducer):
            partition.append(hand.batch(**ids))

    run(test)


def test_a_first_batch_that_found_no_space_is_not_overtaken_by_the_next() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        ids = {"producer_id": 7, "producer_epoch": 0}
        hand.disk.fill_after(200)
        with pytest.raises(DiskFull):
            partition.append(hand.batch(size=300, sequence=0, **ids))
        with pytest.raises(OutOfOrder):
            partition.append(hand.batch(size=10, sequence=1, **ids))
        hand.disk.enlarge()
        assert partition.append(hand.batch(size=300, sequence=0, **ids)).base_offset == 0
        assert partition.append(hand.batch(size=10, sequence=1, **ids)).base_offset == 1

    run(test)


def test_a_later_batch_of_an_unknown_producer_that_found_no_space_says_nothing_about_the_first() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        ids = {"producer_id": 7, "producer_epoch": 0, "sequence": 20}
        hand.disk.fill_after(200)
        with pytest.raises(DiskFull):
            partition.append(hand.batch(size=300, **ids))
        hand.disk.enlarge()
        assert partition.append(hand.batch(size=300, **ids)).base_offset == 0

    run(test)


# -- readers


def test_epochs_are_compared_where_they_are_stated() -> None:
    async def test() -> None:
        partition = Hand().partition(leader_epoch=4)
        partition.check_epoch(-1)
        partition.check_epoch(4)
        with pytest.raises(Fenced):
            partition.check_epoch(3)
        with pytest.raises(UnknownEpoch):
            partition.check_epoch(5)

    run(test)


def test_a_damaged_batch_is_refused_and_the_partition_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        append(hand, partition)
        await hand.workers.do_all()
        assert await partition.settle()
        partition.close(NotLeader("stopping"))
        hand.disk.flip(partition.log.segments[0].file.path, 70, 3)
        again = hand.partition(recovery_offset=1, **FSYNC)
        with pytest.raises(CorruptBatch):
            again.read(0, 1000)
        assert again.failure is None
        assert append(hand, again).outcomes == []

    run(test)
    assert "does not match its checksum" in caplog.text


def test_offsets_by_time() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        assert partition.find_newest() is None
        for time_ms in (100, 300, 200):
            partition.append(memoryview(keyed_batch([(b"k", b"v")], time_ms=time_ms)))
        found = partition.find_time(150)
        assert found is not None and (found.offset, found.timestamp_ms) == (1, 300)
        assert partition.find_time(301) is None
        newest = partition.find_newest()
        assert newest is not None and newest.offset == 1

    run(test)


# -- shrinking


def test_deleted_records_are_gone_only_once_that_is_durable() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        for _ in range(5):
            append(hand, partition)
        deleting = asyncio.create_task(partition.delete_records(3))
        await turns()
        assert partition.start_offset == 0
        assert partition.read(0, 1000) is not None
        hand.workers.do_next()
        assert await deleting == 3
        with pytest.raises(OffsetOutOfRange):
            partition.read(0, 1000)
        hand.disk.crash()
        assert Hand(hand.disk.mount()).partition(**OS).log.read_start() == 3

    run(test)


def test_records_that_cannot_be_deleted() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**FSYNC)
        append(hand, partition)
        for offset in (1, -2):
            with pytest.raises(OffsetOutOfRange):
                await partition.delete_records(offset)
        assert await partition.delete_records(-1) == 0, "nothing is visible yet"
        with pytest.raises(AgainstPolicy):
            await hand.partition(cleanup_policy="compact").delete_records(0)

    run(test)


def test_a_batch_outside_the_header_rules_never_reaches_the_log() -> None:
    refused(InvalidRecord, lambda hand: with_header(bytearray(hand.batch()), count=3))
    refused(InvalidRecord, lambda hand: with_header(bytearray(hand.batch()), attributes=0x20))
    refused(InvalidRecord, lambda hand: with_header(bytearray(hand.batch()), producer_id=1, base_sequence=-1))
