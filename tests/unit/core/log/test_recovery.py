"""Opening a log after all that can happen to its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from log_samples import DIRECTORY, LIMITS, append, opaque_batch, reopen, sync
from penstock.core.errors import CorruptBatch, TornSegment
from penstock.core.log.log import Log
from penstock.core.log.segment import Segment, StoredBatch
from penstock.node.runtime.memory import MemoryFiles


def written(count: int = 12, size: int = 240) -> tuple[MemoryFiles, Log]:
    """Batches of one record, four to a segment."""
    files = MemoryFiles()
    log, _ = reopen(files)
    for number in range(count):
        append(log, opaque_batch(1, bytes([number]) * (size - 61), time_ms=number))
    sync(log)
    return files, log


def path_of(base: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base:020d}{suffix}"


def test_a_new_log_is_empty_and_has_no_files() -> None:
    files = MemoryFiles()
    log, words = reopen(files)
    assert (log.start_offset, log.end_offset, log.high_watermark, words) == (0, 0, 0, [])
    assert files.names("") == [] and log.read(0, 100, log.high_watermark_mark) is None


def test_a_clean_start_reads_no_closed_segment() -> None:
    files, log = written()
    log.save_state()
    log.close()
    assert len(log.segments) == 3
    files._contents[path_of(0)][:] = bytes(len(files._contents[path_of(0)]))
    again, words = reopen(files, recovery_offset=12)
    assert again.end_offset == 12 and words == []
    with pytest.raises(CorruptBatch):
        again.read(0, 100, again.high_watermark_mark)
    assert again.read(4, 100, again.high_watermark_mark) is not None


def test_what_is_found_behind_the_recovery_point_is_not_visible_before_it_is_synced() -> None:
    files, _ = written()
    again, _ = reopen(files, recovery_offset=4)
    assert again.end_offset == 12 and again.high_watermark == 0 and again.is_dirty
    sync(again)
    assert again.high_watermark == 12


def test_a_torn_tail_is_cut_and_told() -> None:
    files, _ = written()
    del files._contents[path_of(8)][-50:]
    again, words = reopen(files, recovery_offset=8)
    assert again.end_offset == 11
    assert len(words) == 1 and "truncated 190 bytes after offset 11" in words[0]


def test_whole_batches_behind_a_tear_are_copied_first() -> None:
    files, _ = written()
    files._contents[path_of(8)][100] ^= 1
    again, words = reopen(files, recovery_offset=8)
    assert again.end_offset == 8 and "copied to" in words[0]
    assert files.exists(f"{path_of(8)}.0.cut")


def test_segments_behind_a_tear_are_set_aside_and_never_overwritten() -> None:
    files, _ = written()
    for _ in range(2):
        files._contents[path_of(4)][100] ^= 1
        again, words = reopen(files, recovery_offset=4)
        assert again.end_offset == 4 and any("set aside" in one for one in words)
        for number in range(8):
            append(again, opaque_batch(1, bytes([number]) * 179))
        sync(again)
    assert {name for name in files.names(DIRECTORY) if name.endswith(".cut") and ".log.cut" in name} == {
        f"{8:020d}.log.cut",
        f"{8:020d}.log.cut.cut",
    }


def test_damage_before_the_recovery_point_is_refused_and_nothing_is_cut() -> None:
    files, log = written()
    log.save_state()
    files._contents[path_of(8)][100] ^= 1
    before = bytes(files._contents[path_of(8)])
    files.remove(path_of(8, ".index"))
    with pytest.raises(CorruptBatch):
        reopen(files, recovery_offset=12)
    assert files.read_whole(path_of(8)) == before


def test_a_log_that_lost_records_refuses_to_open() -> None:
    files, _ = written()
    files.remove(path_of(8))
    with pytest.raises(TornSegment, match="up to offset 12"):
        reopen(files, recovery_offset=12)


def test_a_closed_segment_that_lost_its_tail_is_found_out_when_it_is_read() -> None:
    for keep_index in (True, False):
        files, log = written()
        log.save_state()
        del files._contents[path_of(4)][-240:]
        if not keep_index:
            files.remove(path_of(4, ".index"))
        again, _ = reopen(files, recovery_offset=12)
        with pytest.raises(TornSegment):
            again.read(4, 10_000, again.high_watermark_mark)


def test_a_missing_segment_in_the_middle_is_found_out() -> None:
    files, log = written()
    log.save_state()
    files.remove(path_of(4))
    again, _ = reopen(files, recovery_offset=12)
    with pytest.raises(TornSegment):
        again.read(5, 10_000, again.high_watermark_mark)


def test_a_tail_that_was_lost_between_two_unsynced_segments_ends_the_log_there() -> None:
    files, _ = written()
    del files._contents[path_of(4)][-240:]
    again, words = reopen(files, recovery_offset=0)
    assert again.end_offset == 7 and any("set aside" in one for one in words)


def test_an_index_never_remembers_batches_that_were_replaced() -> None:
    """Cut, write other batches, sync, crash before the index is saved: the old entries must be gone."""
    files, log = written(4, size=150)
    log.save_state()
    log.truncate(1, 1_000)
    for number in range(3):
        append(log, opaque_batch(1, bytes([40 + number]) * (30 + 50 * number)))
    sync(log)
    again, words = reopen(files, recovery_offset=4)
    assert words == [] and again.end_offset == 4
    sync(again)
    for offset in range(4):
        found = again.read(offset, 1, again.high_watermark_mark)
        assert found is not None and int.from_bytes(found.read()[:8]) == offset


def test_a_start_behind_the_end_does_not_hide_the_records_that_come_there_later() -> None:
    """Records were deleted that were not on disk yet, and the power went."""
    files, log = written(3)
    log.persist_start(3)
    log.advance_start(3)
    del files._contents[path_of(0)][240:]
    again, words = reopen(files)
    assert (again.start_offset, again.end_offset) == (1, 1) and "deleted up to offset 3" in words[-1]
    for _ in range(3):
        append(again, opaque_batch(1))
    sync(again)
    assert reopen(files, recovery_offset=4)[0].start_offset == 1


def test_an_epoch_that_only_the_batches_know_starts_where_it_did() -> None:
    files = MemoryFiles()
    log, _ = reopen(files)
    for epoch in (0, 0, 1, 1, 1):
        append(log, opaque_batch(1), epoch=epoch)
    sync(log)
    files.remove(f"{DIRECTORY}/leader-epochs")
    again, _ = reopen(files, recovery_offset=5)
    assert again.epochs.end_of(0, 5) == (0, 2)


def test_rolling_an_empty_segment_makes_no_other() -> None:
    _, log = written(4)
    log.roll(1_000)
    log.roll(2_000)
    assert [one.base_offset for one in log.segments] == [0, 4]
    assert not log.active_is_older_than(1, 3_000)


def test_a_batch_larger_than_a_segment_gets_its_own() -> None:
    files = MemoryFiles()
    log, _ = reopen(files)
    for _ in range(3):
        append(log, opaque_batch(1, bytes(5 * LIMITS.segment_bytes)))
    sync(log)
    assert [one.base_offset for one in log.segments] == [0, 1, 2]
    found = log.read(1, 10, log.high_watermark_mark)
    assert found is not None and found.length > 5 * LIMITS.segment_bytes


def test_a_segment_rolls_by_age() -> None:
    files = MemoryFiles()
    log, _ = reopen(files, limits=LIMITS._replace(segment_ms=100))
    append(log, opaque_batch(1), now_ms=1_000)
    append(log, opaque_batch(1), now_ms=1_099)
    append(log, opaque_batch(1), now_ms=1_100)
    assert [one.base_offset for one in log.segments] == [0, 2]


@pytest.mark.parametrize("start", [0, 1, 4, 6, 9])
def test_epochs_are_the_same_whether_batches_were_scanned_or_trusted(start: int) -> None:
    """A scan after a crash collects the epochs; after a clean stop the batches are read for them."""
    files = MemoryFiles()
    log, _ = reopen(files)
    for epoch in (0, 0, 2, 2, 2, 2, 3, 3, 5, 5):
        append(log, opaque_batch(1, bytes(180)), epoch=epoch)
    sync(log)
    log.persist_start(start)
    files.remove(f"{DIRECTORY}/leader-epochs")
    scanned, _ = reopen(files, recovery_offset=0)
    trusted, _ = reopen(files, recovery_offset=10)
    assert len(log.segments) == 3 and not files.exists(f"{DIRECTORY}/leader-epochs")
    assert [scanned.epochs.at_offset(at) for at in range(start, 10)] == [0, 0, 2, 2, 2, 2, 3, 3, 5, 5][start:]
    for epoch in range(6):
        assert scanned.epochs.end_of(epoch, 10) == trusted.epochs.end_of(epoch, 10)


def test_a_start_after_a_crash_reads_no_batch_a_third_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once to verify it, once for the state of its producer; the epochs come out of the first."""
    files, _ = written(4)
    assert not files.exists(f"{DIRECTORY}/leader-epochs")
    walks: list[int] = []
    walk = Segment.walk

    def counted(self: Segment, position: int, end: int, **how: Any) -> Iterator[StoredBatch]:
        for found in walk(self, position, end, **how):
            walks.append(found.header.base_offset)
            yield found

    monkeypatch.setattr(Segment, "walk", counted)
    again, _ = reopen(files, recovery_offset=0)
    assert again.end_offset == 4
    assert Counter(walks) == {0: 3, 1: 2, 2: 2, 3: 2}  # the first one's timestamp dates the segment


# -- logs of which others have copies


@pytest.mark.parametrize("number", [1, 5, 9])
def test_damage_before_complete_batches_is_refused(number: int) -> None:
    files, log = written()
    log.close()
    path = path_of(4 * (number // 4))
    files._contents[path][240 * (number % 4) + 100] ^= 1
    before = {base: bytes(files._contents[path_of(base)]) for base in (0, 4, 8)}
    with pytest.raises(TornSegment, match="complete batches follow"):
        reopen(files, refuses_damage=True)
    assert {base: bytes(files._contents[path_of(base)]) for base in before} == before, "no batch is cut off"
    again, _ = reopen(files)
    assert again.end_offset == number


def test_a_torn_tail_is_no_damage() -> None:
    files, log = written()
    log.close()
    del files._contents[path_of(8)][-10:]
    again, words = reopen(files, refuses_damage=True)
    assert again.end_offset == 11 and len(words) == 1


def test_a_closed_segment_that_is_too_short_is_refused() -> None:
    files, log = written()
    log.save_state()
    log.close()
    del files._contents[path_of(0)][-10:]
    with pytest.raises(TornSegment, match="the index covers 960 bytes, but the file has 950"):
        reopen(files, recovery_offset=12, refuses_damage=True)
    assert reopen(files, recovery_offset=12)[0].end_offset == 12, "its own records are still readable"
