"""A follower's log: gaps of a compacted leader, a new beginning, and both after a restart."""

from __future__ import annotations

import pytest

from log_samples import filled_batch
from penstock.core.errors import Fenced, OffsetOutOfRange
from penstock.core.log.log import Log, LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.log.replicated import append_replicated
from penstock.core.records.batch import check
from penstock.node.runtime.memory import MemoryFiles

LIMITS = LogLimits(segment_bytes=1_000, segment_ms=10**9, index_interval_bytes=100)


def reopen(files: MemoryFiles, recovery_offset: int = 0) -> Log:
    return open_log(
        files, "log", LIMITS, recovery_offset=recovery_offset, now_ms=1_000, report=lambda _: None
    )


def batch(offset: int, count: int = 1, epoch: int = 3) -> bytearray:
    """As a leader has stored it."""
    made = bytearray(filled_batch(count, b"x" * 50, time_ms=1_000))
    made[0:8], made[12:16] = offset.to_bytes(8), epoch.to_bytes(4)
    return made


def copy(log: Log, *batches: bytearray, gaps_before: int = 0) -> None:
    for one in batches:
        append_replicated(log, gaps_before, one, check(one), 5, 1_000)


def offsets(log: Log) -> list[int]:
    return [
        found.header.base_offset
        for segment in log.segments
        for found in segment.walk(0, segment.size, verify=True)
    ]


def test_gaps_are_copied_and_survive_a_crash() -> None:
    files = MemoryFiles()
    log = reopen(files)
    places = [0, 1, 7, 8, 30, 90, 91, 200]
    copy(log, *map(batch, places), gaps_before=250)
    log.close()
    again = reopen(files)
    assert offsets(again) == places and again.end_offset == 201
    assert again.gaps_before == 250
    copy(again, batch(249), gaps_before=250)
    assert again.end_offset == 250


def test_an_epoch_in_which_the_owner_led_and_wrote_nothing_is_no_obstacle() -> None:
    log = reopen(MemoryFiles())
    copy(log, batch(0, epoch=2))
    log.begin_epoch(4)
    copy(log, batch(1, epoch=2), batch(2, epoch=5))
    assert [log.epochs.at_offset(offset) for offset in range(3)] == [2, 2, 5]


def test_a_batch_of_an_epoch_that_records_have_passed_is_refused() -> None:
    log = reopen(MemoryFiles())
    copy(log, batch(0, epoch=4))
    with pytest.raises(Fenced, match="epoch 3, the log has 4"):
        copy(log, batch(1, epoch=3))
    assert log.end_offset == 1


def test_a_gap_that_nobody_announced_is_refused() -> None:
    log = reopen(MemoryFiles())
    copy(log, batch(0))
    with pytest.raises(OffsetOutOfRange, match="starts at 5, the log ends at 1"):
        copy(log, batch(5), gaps_before=4)
    assert (offsets(log), log.end_offset) == ([0], 1)


def test_what_is_there_already_is_refused() -> None:
    log = reopen(MemoryFiles())
    copy(log, batch(0, 3))
    with pytest.raises(OffsetOutOfRange):
        copy(log, batch(1), gaps_before=100)


def test_a_log_starts_again_with_nothing_left() -> None:
    files = MemoryFiles()
    log = reopen(files)
    copy(log, *(batch(number) for number in range(20)))
    log.save_state()
    written = log.written_bytes
    log.restart(500, 1_000)
    assert (log.start_offset, log.end_offset, log.high_watermark, log.synced_offset) == (500,) * 4
    assert log.epochs.latest == -1 and log.written_bytes == written
    copy(log, batch(500), batch(501))
    log.advance(502)
    assert log.written_bytes > written
    log.close()
    again = reopen(files, recovery_offset=502)
    assert (again.start_offset, again.end_offset) == (500, 502) and offsets(again) == [500, 501]
    assert again.epochs.at_offset(500) == 3


def test_an_empty_log_that_started_again_remembers_where() -> None:
    files = MemoryFiles()
    log = reopen(files)
    log.restart(77, 1_000)
    log.close()
    again = reopen(files)
    assert (again.start_offset, again.end_offset) == (77, 77)


def test_it_may_start_again_before_its_beginning() -> None:
    files = MemoryFiles()
    log = reopen(files)
    log.restart(50, 1_000)
    log.restart(40, 1_000)
    copy(log, batch(40, 20))
    log.close()
    again = reopen(files)
    assert (again.start_offset, again.end_offset) == (40, 60), "an older start would hide records"
