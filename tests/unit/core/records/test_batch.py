"""The header of a batch: what it says, what is refused, what the log stamps."""

from __future__ import annotations

import pytest

from making import opaque_batch, with_header
from penstock.core.errors import CorruptBatch, InvalidRecord, UnsupportedCompression
from penstock.core.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    check,
    check_produced,
    decode_header,
    encode_header,
    size_at,
    stamp,
    stamp_append_time,
)


def test_a_header_says_what_was_written() -> None:
    attributes = TRANSACTIONAL | 4
    batch = opaque_batch(
        3, b"records", time_ms=77, producer_id=5, producer_epoch=2, sequence=9, attributes=attributes
    )
    header = check(batch)
    assert (header.count, header.last_offset_delta, header.max_timestamp_ms) == (3, 2, 77)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 9)
    assert header.codec == 4 and header.is_transactional and not header.is_control and not header.has_append_time
    assert header.size == len(batch) == size_at(batch, 0)
    assert encode_header(header) == bytes(batch[:61])


def test_stamps_leave_the_checksum_alone() -> None:
    batch = opaque_batch(3)
    stamp(batch, 1_000, 7)
    header = check(batch)
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (1_000, 1_002, 1_003, 7)


def test_append_time_is_stamped_with_a_new_checksum() -> None:
    batch = opaque_batch(1, time_ms=5)
    stamp_append_time(memoryview(batch), 99)
    header = check(batch)
    assert header.has_append_time and header.max_timestamp_ms == 99


def test_every_flipped_bit_behind_the_checksum_is_found() -> None:
    batch = opaque_batch(1, b"some records")
    for bit in range(16 * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            check(flipped)


def test_what_cannot_be_a_batch_is_refused() -> None:
    batch = opaque_batch(2)
    for broken in (batch[:60], batch[:-1], batch + b"x", bytes(100), b""):
        with pytest.raises(CorruptBatch):
            check(broken)
    for changes in ({"magic": 1}, {"length": 10}, {"length": -5}, {"base_offset": -1}, {"last_offset_delta": -1}):
        changed = bytearray(encode_header(decode_header(batch)._replace(**changes))) + batch[61:]
        with pytest.raises(CorruptBatch):
            check(changed)


def test_what_a_producer_may_not_send() -> None:
    batch = opaque_batch(2)
    assert check_produced(batch).count == 2
    with pytest.raises(InvalidRecord):
        check_produced(batch + batch)
    with pytest.raises(CorruptBatch):
        check_produced(batch[:-1])
    for changes in (
        {"count": 0},
        {"count": 3},
        {"attributes": CONTROL},
        {"attributes": DELETE_HORIZON},
        {"producer_id": 4},
    ):
        with pytest.raises(InvalidRecord):
            check_produced(with_header(batch, **changes))
    with pytest.raises(UnsupportedCompression):
        check_produced(with_header(batch, attributes=5))
