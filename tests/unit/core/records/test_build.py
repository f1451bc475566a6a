"""Batches built from records and opened into them again."""

from __future__ import annotations

import pytest

from log_samples import opaque_batch, with_header
from penstock.core.codecs import CODEC_NAMES
from penstock.core.errors import CorruptBatch, TooLarge, UnsupportedCompression
from penstock.core.model import Header, NewRecord, Record
from penstock.core.records.batch import check, stamp, stamp_append_time
from penstock.core.records.build import build_batch, open_batch, open_batches, payload_of, recompress
from penstock.core.records.compression import compress

RECORDS = [
    NewRecord(b"k", b"v" * 500, (Header("h", None),), 1_000),
    NewRecord(None, None, (), 3_000),
    NewRecord(b"", b"", (), 500),
]
OPENED = [
    Record(0, 1_000, b"k", b"v" * 500, (Header("h", None),)),
    Record(1, 3_000, None, None),
    Record(2, 500, b"", b""),
]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_is_built_is_opened(codec: int) -> None:
    batch = build_batch(RECORDS, 9, codec)
    header = check(batch)
    assert (header.base_timestamp_ms, header.max_timestamp_ms, header.count) == (1_000, 3_000, 3)
    assert open_batch(batch, header) == OPENED


def test_records_without_a_time_get_the_present() -> None:
    batch = build_batch([NewRecord(None, b"a"), NewRecord(None, b"b", (), 5)], 99)
    assert [record.timestamp_ms for record in open_batches(batch)] == [99, 5]


@pytest.mark.parametrize("before", CODEC_NAMES)
@pytest.mark.parametrize("after", CODEC_NAMES)
def test_another_compression_changes_nothing_else(before: int, after: int) -> None:
    batch = with_header(build_batch(RECORDS, 9, before), producer_id=4, producer_epoch=1, base_sequence=7)
    changed, header = recompress(check(batch), payload_of(batch, check(batch)), after)
    assert header == check(changed) and header.codec == after
    assert (header.producer_id, header.base_sequence) == (4, 7)
    assert open_batch(changed, header) == OPENED


def test_a_run_of_batches_opens_without_its_control_batches() -> None:
    first, second = build_batch(RECORDS[:1], 9), build_batch(RECORDS[1:], 9)
    control = with_header(opaque_batch(), attributes=0x20)
    for batch, offset in ((first, 10), (control, 11), (second, 12)):
        stamp(batch, offset, 0)
    assert [record.offset for record in open_batches(bytes(first + control + second))] == [10, 12, 13]
    assert open_batches(b"") == []


def test_append_time_counts_for_every_record() -> None:
    batch = build_batch(RECORDS, 9)
    stamp_append_time(batch, 77)
    assert {record.timestamp_ms for record in open_batches(batch)} == {77}


def test_batches_that_cannot_be_opened() -> None:
    bomb = compress(1, bytes(1 << 28))
    for batch, error in (
        (opaque_batch(payload=b"nonsense"), CorruptBatch),
        (opaque_batch(payload=b"nonsense", attributes=1), CorruptBatch),
        (opaque_batch(payload=b"nonsense", attributes=6), UnsupportedCompression),
        (opaque_batch(payload=bomb + bomb, attributes=1), TooLarge),
        (with_header(build_batch(RECORDS, 9), count=4, last_offset_delta=3), CorruptBatch),
    ):
        with pytest.raises(error):
            open_batch(batch, check(batch))
