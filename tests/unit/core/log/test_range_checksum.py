"""Checksums of ranges: the same for the same batches, whatever files they are in, and none for damaged ones."""

from __future__ import annotations

import pytest

from log_samples import DIRECTORY, LIMITS, append, opaque_batch, reopen, sync
from penstock.core.errors import CorruptBatch, OffsetOutOfRange, TornSegment
from penstock.core.log.log import Log
from penstock.core.log.range_checksum import (
    RangeChecksum,
    checksum_range,
    choose_end,
    first_boundary,
    is_current,
    plan_range,
)
from penstock.node.runtime.memory import MemoryFiles


def written(segment_bytes: int = LIMITS.segment_bytes) -> tuple[MemoryFiles, Log]:
    """Twelve batches of one record."""
    files = MemoryFiles()
    log, _ = reopen(files)
    log.limits = LIMITS._replace(segment_bytes=segment_bytes)
    for number in range(12):
        append(log, opaque_batch(1, bytes([number]) * 179, time_ms=number))
    sync(log)
    return files, log


def read(files: MemoryFiles, log: Log, start: int, end: int) -> RangeChecksum:
    return checksum_range(files, plan_range(log, start, end))


def path_of(base: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base:020d}{suffix}"


def test_equal_ranges_of_different_segments_have_one_checksum() -> None:
    files, log = written()
    others, other = written(segment_bytes=600)
    assert len(log.segments) != len(other.segments)
    for start, end in [(0, 12), (0, 4), (3, 9), (11, 12), (4, 5)]:
        one, two = read(files, log, start, end), read(others, other, start, end)
        assert (
            (one.digest, one.size_bytes) == (two.digest, two.size_bytes) == (two.digest, 240 * (end - start))
        )
    assert read(files, log, 0, 4).digest != read(files, log, 4, 8).digest


@pytest.mark.parametrize("base", [0, 8], ids=["closed", "active"])
@pytest.mark.parametrize("byte", [7, 11, 15, 16, 18, 60, 100, 239])
def test_a_flipped_bit_is_found(base: int, byte: int) -> None:
    files, log = written()
    before = read(files, log, 0, 12).digest
    files._contents[path_of(base)][240 + byte] ^= 1
    try:
        after = read(files, log, 0, 12).digest
    except (CorruptBatch, TornSegment):
        return
    assert after != before and base == 8 and byte == 15, "the epoch in the active segment, which has no chain"


def test_a_file_that_is_too_short_or_missing_is_damage() -> None:
    files, log = written()
    del files._contents[path_of(0)][-10:]
    with pytest.raises(TornSegment, match="950 bytes, expected 960"):
        read(files, log, 0, 12)
    files.remove(path_of(0))
    with pytest.raises(TornSegment):
        read(files, log, 0, 12)
    assert read(files, log, 4, 12).size_bytes == 8 * 240


def test_a_damaged_index_is_rebuilt() -> None:
    files, log = written()
    before, content = read(files, log, 0, 12), files._contents[path_of(4, ".index")]
    content[2] ^= 1
    after = read(files, log, 0, 12)
    assert (after.digest, after.rebuilt, before.rebuilt) == (before.digest, [4], [])
    assert read(files, log, 0, 12).rebuilt == []


@pytest.mark.parametrize(("start", "end"), [(0, 13), (5, 5), (-1, 4)])
def test_a_range_that_the_log_does_not_have(start: int, end: int) -> None:
    _, log = written()
    with pytest.raises(OffsetOutOfRange):
        plan_range(log, start, end)


def test_deleted_and_compacted_offsets_are_not_compared() -> None:
    _, log = written()
    plan = plan_range(log, 2, 12)
    assert is_current(log, plan)
    log.advance(12)
    log.advance_start(3)
    assert not is_current(log, plan)
    with pytest.raises(OffsetOutOfRange):
        plan_range(log, 2, 12)
    log.gaps_before = 6
    with pytest.raises(OffsetOutOfRange):
        plan_range(log, 4, 12)


def test_borders_are_batch_boundaries() -> None:
    files = MemoryFiles()
    log, _ = reopen(files)
    for _ in range(6):
        append(log, opaque_batch(5, bytes(100)))
    sync(log)
    assert [first_boundary(log, offset) for offset in (0, 1, 5, 6, 29, 30)] == [0, 5, 5, 10, 30, 30]
    with pytest.raises(OffsetOutOfRange, match="no batch starts at offset 7"):
        read(files, log, 7, 20)
    end = choose_end(log, 5, 30, 100)
    assert end == 10 and choose_end(log, 5, 8, 100) == 8
    assert choose_end(log, 0, 30, 1 << 20) in (log.segments[0].next_offset, 30)
