"""What may go: by age, by size, by the start; never the last segment, never what readers cannot see yet."""

from __future__ import annotations

from log_samples import append, opaque_batch, reopen, sync
from penstock.core.log.log import Log
from penstock.core.log.retention import active_is_expired, expired_count
from penstock.node.runtime.memory import MemoryFiles


def log_with(*times_ms: int) -> Log:
    """One closed segment for each time, 100 bytes each, and an empty last one."""
    log, _ = reopen(MemoryFiles())
    for time_ms in times_ms:
        append(log, opaque_batch(1, b"x" * 39, time_ms=time_ms))
        log.roll(1_000)
    sync(log)
    return log


def expired(log: Log, *, now_ms: int = 10_000, retention_ms: int = -1, retention_bytes: int = -1) -> int:
    return expired_count(log, now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes)


def test_without_limits_everything_stays() -> None:
    assert expired(log_with(1, 2, 3)) == 0


def test_age_is_that_of_the_newest_record() -> None:
    log = log_with(1_000, 2_000, 3_000)
    assert expired(log, retention_ms=8_000) == 1
    assert expired(log, retention_ms=7_999) == 2
    assert expired(log, retention_ms=0) == 3
    assert expired(log, retention_ms=9_000) == 0


def test_a_time_in_the_future_keeps_its_segment_and_all_behind_it() -> None:
    log = log_with(1_000, 99_999, 1_000)
    assert expired(log, retention_ms=5_000) == 1
    assert expired(log, now_ms=200_000, retention_ms=5_000) == 3


def test_records_without_a_time_have_no_age() -> None:
    assert expired(log_with(-1, 1_000), retention_ms=1) == 0


def test_size_leaves_at_least_what_is_allowed() -> None:
    log = log_with(1, 1, 1)
    assert expired(log, retention_bytes=300) == 0
    assert expired(log, retention_bytes=201) == 0
    assert expired(log, retention_bytes=200) == 1
    assert expired(log, retention_bytes=0) == 3


def test_what_lies_before_the_start_goes_in_any_case() -> None:
    log = log_with(1, 1, 1)
    log.start_offset = 2
    assert expired(log) == 2


def test_what_readers_cannot_see_yet_stays() -> None:
    log = log_with(1, 1)
    append(log, opaque_batch(1, time_ms=1))
    log.roll(1_000)
    assert expired(log, retention_ms=1) == 2


def test_the_last_segment_is_rolled_only_when_it_is_old_and_alone() -> None:
    limits = {"now_ms": 10_000, "retention_ms": 5_000, "retention_bytes": -1}
    log = log_with(1_000)
    assert not active_is_expired(log, **limits)
    append(log, opaque_batch(1, time_ms=2_000))
    assert not active_is_expired(log, **limits)
    sync(log)
    assert active_is_expired(log, **limits)
    append(log, opaque_batch(1, time_ms=9_000))
    sync(log)
    assert not active_is_expired(log, **limits)
    young = log_with(9_000)
    append(young, opaque_batch(1, time_ms=1_000))
    sync(young)
    assert not active_is_expired(young, **limits)


def test_ages_are_known_after_a_restart_without_reading_the_batches() -> None:
    log = log_with(1_000, 2_000, 3_000)
    log.save_state()
    again, _ = reopen(log.files, recovery_offset=3)
    assert expired(again, retention_ms=7_999) == 2
