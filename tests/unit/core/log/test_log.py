"""What a log is told: its high watermark, its syncs, its leader's batches."""

from __future__ import annotations

import pytest

from log_samples import DIRECTORY, LIMITS, append, filled_batch, opaque_batch, reopen, sync
from penstock.core.errors import Fenced, OffsetOutOfRange, UnknownEpoch
from penstock.core.log import log as log_module
from penstock.core.log.log import Log
from penstock.core.log.recovery import open_log
from penstock.core.log.replicated import append_replicated
from penstock.core.log.segment import Segment
from penstock.core.records.batch import TRANSACTIONAL, check, decode_header
from penstock.core.records.control import Marker, build_marker
from penstock.node.runtime.memory import MemoryFiles


def new_log() -> Log:
    return reopen(MemoryFiles())[0]


def filled(*counts: int) -> Log:
    """A log with batches of so many records, of different sizes, in several segments; nothing is synced."""
    log = new_log()
    for number, count in enumerate(counts):
        append(log, opaque_batch(count, bytes([number]) * (100 + 50 * number)))
    return log


def offsets_read(log: Log) -> list[int]:
    """The base offsets of all batches that readers may see."""
    found: list[int] = []
    offset = log.start_offset
    while (part := log.read(offset, 1, log.high_watermark_mark)) is not None:
        header = decode_header(part.read())
        found.append(header.base_offset)
        offset = header.next_offset
    return found


def forbid_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object) -> None:
        raise AssertionError("a file was searched")

    monkeypatch.setattr(Segment, "find", find)


# -- the high watermark


def test_an_opened_log_shows_nothing_before_it_is_told_a_watermark() -> None:
    log = filled(1, 2, 1)
    sync(log)
    log.persist_start(1)
    log.save_state()
    again = open_log(log.files, DIRECTORY, LIMITS, recovery_offset=4, now_ms=1_000, report=lambda _: None)
    assert not again.is_dirty
    assert (again.start_offset, again.high_watermark, again.synced_offset, again.end_offset) == (1, 1, 4, 4)
    assert offsets_read(again) == []
    again.advance(4)
    assert offsets_read(again) == [1, 3]


def test_what_recovery_has_to_prove_is_not_known_to_be_synced() -> None:
    log = filled(1, 2, 1)
    sync(log)
    again, _ = reopen(log.files, recovery_offset=1)
    assert again.is_dirty and again.synced_offset == 1


def test_the_watermark_can_be_set_to_every_batch_boundary_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boundaries = (1, 3, 6, 7, 9, 10)
    for boundary in boundaries:
        log = filled(1, 2, 3, 1, 2, 1)
        assert len(log.segments) > 1
        with monkeypatch.context() as patch:
            forbid_search(patch)
            log.advance(boundary)
        assert log.high_watermark == boundary
        assert offsets_read(log) == [offset for offset in (0, *boundaries) if offset < boundary]


def test_the_watermark_may_stop_at_every_boundary_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(1, 2, 3, 1, 2, 1)
    with monkeypatch.context() as patch:
        forbid_search(patch)
        for boundary in (1, 3, 6, 7, 9, 10):
            log.advance(boundary)
            assert log.high_watermark == boundary
    assert offsets_read(log) == [0, 1, 3, 6, 7, 9]


@pytest.mark.parametrize("boundary", [1, 3, 6, 7, 9, 10])
def test_a_boundary_that_was_forgotten_is_found_through_the_index(
    boundary: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MARKS_MAX", 2)
    log = filled(1, 2, 3, 1, 2, 1)
    log.advance(boundary)
    assert log.high_watermark == boundary
    assert offsets_read(log) == [offset for offset in (0, 1, 3, 6, 7, 9) if offset < boundary]
    log.advance(10)
    assert offsets_read(log) == [0, 1, 3, 6, 7, 9]


def test_the_watermark_never_goes_back_nor_beyond_the_end() -> None:
    log = filled(1, 2, 3)
    log.advance(3)
    log.advance(1)
    assert log.high_watermark == 3
    log.advance(100)
    assert log.high_watermark == log.end_offset == 6
    append(log, opaque_batch(1))
    assert log.high_watermark == 6


def test_a_watermark_inside_a_batch_shows_none_of_it() -> None:
    log = filled(1, 2, 3)
    log.advance(5)
    assert log.high_watermark == 3 and offsets_read(log) == [0, 1]


def test_a_start_behind_the_watermark_takes_it_along() -> None:
    log = filled(1, 2, 3)
    log.advance_start(3)
    assert log.start_offset == log.high_watermark == 3


# -- truncation


def test_a_sync_that_returns_after_a_truncation_proves_nothing() -> None:
    log = filled(1, 1)
    sync(log)
    append(log, opaque_batch(3))
    late = log.take_dirty()
    log.truncate(2, 1_000)
    append(log, opaque_batch(4))
    log.mark_synced(late)
    assert log.synced_offset == 2, "offsets 2 to 4 are other records than those that were synced"
    assert log.is_dirty
    sync(log)
    assert log.synced_offset == log.high_watermark == 6


def test_what_was_synced_is_forgotten_with_what_is_cut() -> None:
    log = filled(1, 1, 1)
    sync(log)
    log.truncate(1, 1_000)
    append(log, opaque_batch(5))
    assert (log.synced_offset, log.high_watermark, log.end_offset) == (1, 1, 6)


def test_boundaries_behind_a_cut_are_forgotten() -> None:
    log = filled(1, 2, 3, 1)
    log.truncate(3, 1_000)
    for size in (700, 20, 300):
        append(log, opaque_batch(2, bytes(size)))
    for boundary in (1, 3, 5, 7, 9):
        log.advance(boundary)
        assert log.high_watermark == boundary
    assert offsets_read(log) == [0, 1, 3, 5, 7]


# -- batches of another leader


def leader_log() -> Log:
    """A log with two epochs, a producer and an aborted transaction."""
    log = new_log()
    append(log, filled_batch(2), epoch=3)
    append(log, filled_batch(3, producer_id=7, producer_epoch=0, sequence=40), epoch=3)
    append(
        log, filled_batch(1, producer_id=8, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL), epoch=5
    )
    append(log, build_marker(8, 0, Marker(is_commit=False, coordinator_epoch=2), 1_000), epoch=5)
    append(log, filled_batch(1), epoch=5)
    return log


def batches_of(log: Log) -> list[bytes]:
    return [
        bytes(found.raw) for segment in log.segments for found in segment.walk(0, segment.size, verify=True)
    ]


def replicate(log: Log, raw: bytes, leader_epoch: int = 5) -> int:
    batch = bytearray(raw)
    offset = append_replicated(log, 0, batch, check(batch), leader_epoch, 1_000)
    assert batch == raw
    return offset


def test_a_replicated_log_is_the_same_in_every_byte_and_knows_the_same() -> None:
    leader, follower = leader_log(), new_log()
    for raw in batches_of(leader):
        assert replicate(follower, raw) == decode_header(raw).base_offset
    assert batches_of(follower) == batches_of(leader)
    assert follower.high_watermark == 0, "what is committed the leader tells"
    assert [follower.epochs.end_of(epoch, 8) for epoch in (3, 5)] == [(3, 5), (5, 8)]
    assert [one[0] for one in follower.producers.items()] == [7, 8]
    assert follower.transactions.aborted_between(0, 8) == leader.transactions.aborted_between(0, 8) != []


def test_a_replicated_batch_must_be_the_next_one() -> None:
    first, second, *_ = batches_of(leader_log())
    log = new_log()
    with pytest.raises(OffsetOutOfRange):
        replicate(log, second)
    replicate(log, first)
    with pytest.raises(OffsetOutOfRange):
        replicate(log, first)
    assert batches_of(log) == [first]


def test_the_epochs_of_replicated_batches_go_neither_back_nor_ahead() -> None:
    log, later = new_log(), new_log()
    append(log, filled_batch(2), epoch=4)
    (older,) = batches_of(leader_log())[1:2]
    with pytest.raises(Fenced):
        replicate(log, older)
    append(later, filled_batch(1), epoch=6)
    with pytest.raises(UnknownEpoch):
        replicate(new_log(), batches_of(later)[0], leader_epoch=5)
    assert log.end_offset == 2


# -- epochs


def test_an_epoch_begins_where_the_log_ends_even_if_nothing_is_written_in_it() -> None:
    log = filled(1, 2)
    log.begin_epoch(4)
    assert log.epochs.end_of(0, log.end_offset) == (0, 3)
    assert log.epochs.end_of(4, log.end_offset) == (4, 3)
    log.begin_epoch(6)
    assert log.epochs.end_of(4, log.end_offset) == (0, 3), "no record was ever written in epoch 4"
    append(log, opaque_batch(1), epoch=6)
    assert log.epochs.end_of(5, log.end_offset) == (0, 3) and log.epochs.at_offset(3) == 6


# -- transactions


def test_a_snapshot_knows_of_transactions_that_ended_behind_the_watermark() -> None:
    log = new_log()
    append(log, filled_batch(2, producer_id=8, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL))
    log.advance(2)
    append(log, build_marker(8, 0, Marker(is_commit=True, coordinator_epoch=0), 1_000))
    assert log.stable().offset == 0
    log.save_state()
    sync_files(log)
    again = open_log(log.files, DIRECTORY, LIMITS, recovery_offset=3, now_ms=1_000, report=lambda _: None)
    assert again.producers.snapshot_offset == 3
    again.advance(2)
    assert again.stable().offset == 0, "its marker may still be truncated"
    again.advance(3)
    assert again.stable().offset == 3


def sync_files(log: Log) -> None:
    log.mark_synced(log.take_dirty())
