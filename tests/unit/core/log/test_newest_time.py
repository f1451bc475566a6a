"""The newest record by time: only of what readers may see, at both ends of the log."""

from __future__ import annotations

from penstock.core.log.log import BatchBoundary, Log, LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.model import NO_TIMESTAMP, NewRecord
from penstock.core.records.batch import decode_header
from penstock.core.records.build import build_batch
from penstock.node.runtime.memory import MemoryFiles

LIMITS = LogLimits(300, 2**60, 64)


def log_of(*times_ms: int) -> tuple[Log, list[BatchBoundary]]:
    log = open_log(MemoryFiles(), "p", LIMITS, recovery_offset=0, now_ms=1, report=print)
    marks = [log.end_mark()]
    for time_ms in times_ms:
        batch = build_batch([NewRecord(b"k", b"v" * 20, timestamp_ms=time_ms)], 1)
        log.append(batch, decode_header(batch), 0, 1)
        marks.append(log.end_mark())
    return log, marks


def test_what_is_not_visible_yet_does_not_count() -> None:
    log, marks = log_of(5, 9, 3, 20, 7, 30)
    assert [log.newest_time_ms(mark) for mark in marks] == [NO_TIMESTAMP, 5, 9, 9, 20, 20, 30]


def test_what_was_deleted_does_not_count() -> None:
    log, marks = log_of(5, 90, 3, 20, 7, 6)
    newest = []
    for offset in range(6):
        log.advance_start(offset)
        newest.append(log.newest_time_ms(marks[-1]))
    assert newest == [90, 90, 20, 20, 7, 6]
