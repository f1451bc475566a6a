"""One record inside one batch, by its time."""

from __future__ import annotations

import pytest

from penstock.core.codecs import GZIP
from penstock.core.model import NewRecord
from penstock.core.records.batch import check, stamp, stamp_append_time
from penstock.core.records.build import build_batch
from penstock.core.records.lookup import first_at_or_after


def batch_of(*times_ms: int) -> bytearray:
    batch = build_batch([NewRecord(None, b"v", (), time_ms) for time_ms in times_ms], 1)
    stamp(batch, 100, 0)
    return batch


def found_in(batch: bytearray, time_ms: int, start_offset: int) -> tuple[int, int]:
    nearest = first_at_or_after(batch, check(batch), time_ms, start_offset, 1 << 20)
    assert nearest.is_exact
    return nearest.offset, nearest.timestamp_ms


@pytest.mark.parametrize(
    ("time_ms", "start_offset", "found"),
    [
        (0, 0, (100, 20)),
        (20, 0, (100, 20)),
        (21, 0, (102, 40)),
        (40, 0, (102, 40)),
        (0, 101, (101, 10)),
        (15, 101, (102, 40)),
        (15, 103, (103, 30)),
    ],
)
def test_the_first_record_at_or_after_both(time_ms: int, start_offset: int, found: tuple[int, int]) -> None:
    batch = batch_of(20, 10, 40, 30)
    assert found_in(batch, time_ms, start_offset) == found


def test_with_append_time_the_batch_has_one_time() -> None:
    batch = batch_of(20, 10, 40)
    stamp_append_time(batch, 77)
    assert found_in(batch, 50, 0) == (100, 77)
    assert found_in(batch, 50, 102) == (102, 77)


@pytest.mark.parametrize(
    ("decompressed_bytes_max", "found"), [(10, (100, 40, False)), (1 << 20, (102, 40, True))]
)
def test_a_batch_that_unfolds_to_too_much_is_found_as_a_whole(
    decompressed_bytes_max: int, found: tuple[int, int, bool]
) -> None:
    batch = build_batch([NewRecord(None, b"v" * 99, (), time_ms) for time_ms in (20, 10, 40)], 1, GZIP)
    stamp(batch, 100, 0)
    assert first_at_or_after(batch, check(batch), 30, 0, decompressed_bytes_max) == found
