"""The header of a batch: what it says, what it may not say, and what the log stamps into it."""

from __future__ import annotations

import pytest

from log_samples import keyed_batch, opaque_batch, with_header
from penstock.core.errors import CorruptBatch, InvalidRecord, UnsupportedCompression
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.records.batch import (
    LOG_APPEND_TIME,
    check,
    check_produced,
    decode_header,
    encode_header,
    size_at,
    stamp,
    stamp_append_time,
)


def test_the_header_comes_back_as_it_was_written() -> None:
    batch = opaque_batch(3, b"abc", time_ms=99, producer_id=5, producer_epoch=2, sequence=8, attributes=0x10)
    header = check(batch)
    assert encode_header(header) == batch[:BATCH_HEADER_BYTES]
    assert (header.size, header.count, header.next_offset, size_at(batch, 0)) == (64, 3, 3, 64)
    assert header.is_transactional and not header.is_control and not header.has_append_time


def test_a_batch_of_its_own_offsets_is_found_at_any_position() -> None:
    batch = opaque_batch(2)
    stamp(batch, 40, 6)
    header = decode_header(bytes(7) + batch, 7)
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (
        40,
        41,
        42,
        6,
    )
    assert check(batch) == header, "offset and epoch lie outside the checksum"


def test_every_flipped_bit_behind_the_epoch_is_noticed() -> None:
    batch = opaque_batch(payload=b"xyz")
    for byte in range(16, len(batch)):
        for bit in range(8):
            flipped = bytearray(batch)
            flipped[byte] ^= 1 << bit
            with pytest.raises(CorruptBatch):
                check(flipped)


@pytest.mark.parametrize("length", range(BATCH_HEADER_BYTES))
def test_too_few_bytes_are_no_header(length: int) -> None:
    with pytest.raises(CorruptBatch):
        decode_header(opaque_batch()[:length])


@pytest.mark.parametrize(
    "changes", [{"length": 48}, {"length": -1}, {"last_offset_delta": -1}, {"base_offset": -1}, {"magic": 1}]
)
def test_a_header_that_cannot_be(changes: dict[str, int]) -> None:
    raw = encode_header(decode_header(opaque_batch())._replace(**changes))
    with pytest.raises(CorruptBatch):
        decode_header(raw + bytes(20))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"count": 0}, InvalidRecord),
        ({"count": -1}, InvalidRecord),
        ({"last_offset_delta": 4}, InvalidRecord),
        ({"attributes": 0x20}, InvalidRecord),
        ({"attributes": 5}, UnsupportedCompression),
        ({"attributes": 7}, UnsupportedCompression),
        ({"producer_id": 1, "base_sequence": -1, "producer_epoch": 0}, InvalidRecord),
        ({"producer_id": 1, "base_sequence": 0, "producer_epoch": -1}, InvalidRecord),
    ],
)
def test_what_a_producer_may_not_send(changes: dict[str, int], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_produced(with_header(opaque_batch(2), **changes))


def test_a_produced_batch_is_exactly_one() -> None:
    batch = opaque_batch()
    assert check_produced(batch).count == 1
    with pytest.raises(InvalidRecord):
        check_produced(batch + batch)
    with pytest.raises(InvalidRecord):
        check_produced(batch[:-1])
    with pytest.raises(CorruptBatch):
        check_produced(batch[:-1] + b"?")


def test_append_time_is_stamped_with_a_new_checksum() -> None:
    batch = keyed_batch([(b"k", b"v")], time_ms=5)
    stamp_append_time(batch, 77)
    header = check(batch)
    assert (header.max_timestamp_ms, header.base_timestamp_ms) == (77, 5)
    assert header.attributes & LOG_APPEND_TIME
