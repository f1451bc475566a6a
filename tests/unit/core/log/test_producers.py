"""Idempotence: sequences, repeats, epochs, snapshots."""

from __future__ import annotations

import pytest

from log_samples import opaque_batch
from penstock.core.errors import OutOfOrder, StaleProducer
from penstock.core.log.producers import Producers
from penstock.core.log.transactions import PartitionTransactions
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.node.runtime.memory import MemoryFiles


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return decode_header(
        opaque_batch(count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence)
    )


def producers_with(*headers: BatchHeader) -> Producers:
    made = Producers(MemoryFiles(), "p", PartitionTransactions(MemoryFiles(), "p"))
    for offset, one in enumerate(headers):
        assert made.check(one) is None
        made.observe(one, offset * 10, 1_000, b"")
    return made


def test_the_next_sequence_is_taken_and_others_are_refused() -> None:
    made = producers_with(header(0, 3))
    assert made.check(header(3)) is None
    for wrong in (header(4), header(1), header(0, 2)):
        with pytest.raises(OutOfOrder):
            made.check(wrong)


def test_any_of_the_last_five_batches_may_come_again() -> None:
    made = producers_with(*(header(number) for number in range(7)))
    for number in range(2, 7):
        repeated = made.check(header(number))
        assert repeated is not None and repeated.base_offset == number * 10
    with pytest.raises(OutOfOrder):
        made.check(header(1))


def test_sequences_wrap_to_zero() -> None:
    made = producers_with(header(2**31 - 2, 4))
    assert made.check(header(2)) is None
    with pytest.raises(OutOfOrder):
        made.check(header(0))


def test_a_new_epoch_starts_at_zero_and_ends_the_old() -> None:
    made = producers_with(header(0, 3))
    with pytest.raises(OutOfOrder):
        made.check(header(3, epoch=1))
    assert made.check(header(0, epoch=1)) is None
    made.observe(header(0, epoch=1), 50, 1_000, b"")
    with pytest.raises(StaleProducer):
        made.check(header(3))


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert producers_with().check(header(41)) is None


def test_snapshots_come_back_whole_and_damaged_ones_do_not_count() -> None:
    files = MemoryFiles()
    made = Producers(files, "p", PartitionTransactions(files, "p"))
    for number in range(3):
        made.observe(header(number), number, 1_000, b"")
        made.save(number + 1, 0)
    assert files.names("p") == [f"{2:020d}.snapshot", f"{3:020d}.snapshot"]
    content = bytearray(files.read_whole(f"p/{3:020d}.snapshot") or b"")
    content[12] ^= 4
    files.write_whole(f"p/{3:020d}.snapshot", bytes(content))
    again = Producers(files, "p", PartitionTransactions(files, "p"))
    assert again.load(3) == 2 and again.has_dropped
    assert again.items()[0][1].batches[-1].first_sequence == 1
    assert again.load(1) == 0 and len(again) == 0


def test_an_unchanged_state_is_renamed_and_not_written_again() -> None:
    files = MemoryFiles()
    made = Producers(files, "p", PartitionTransactions(files, "p"))
    made.observe(header(0), 0, 1_000, b"")
    made.save(1, 0)
    inner = files._contents[f"p/{1:020d}.snapshot"]
    made.save(100, 0)
    assert files.names("p") == [f"{100:020d}.snapshot"]
    assert files._contents[f"p/{100:020d}.snapshot"] is inner
    again = Producers(files, "p", PartitionTransactions(files, "p"))
    assert again.load(100) == 100 and len(again) == 1
    again.save(200, 0)
    assert files._contents[f"p/{200:020d}.snapshot"] is inner


def test_silent_producers_are_forgotten() -> None:
    made = producers_with(header(0))
    made.expire(1_500, 500)
    assert len(made) == 1
    made.expire(1_501, 500)
    assert len(made) == 0
