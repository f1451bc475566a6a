"""Markers: the bytes that Kafka writes, and only those."""

from __future__ import annotations

import pytest
from kafka.record import MemoryRecords

from log_samples import opaque_batch
from penstock.core.errors import CorruptBatch
from penstock.core.model import NewRecord
from penstock.core.records.batch import (
    CONTROL,
    TRANSACTIONAL,
    check,
    decode_header,
    encode_header,
    stamp_checksum,
)
from penstock.core.records.build import build_batch
from penstock.core.records.control import Marker, build_marker, read_marker


@pytest.mark.parametrize(("is_commit", "kind"), [(True, 1), (False, 0)])
def test_a_marker_is_a_control_batch_of_one_record(is_commit: bool, kind: int) -> None:
    batch = build_marker(9, 4, Marker(is_commit, 3), 1_000)
    header = check(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.count) == (9, 4, -1, 1)
    assert header.attributes == CONTROL | TRANSACTIONAL
    assert read_marker(batch, header) == Marker(is_commit, 3)
    assert batch[61:] == bytes.fromhex("20000000" "08" "0000" f"{kind:04x}" "0c" "0000" "00000003" "00")  # fmt: skip


def test_another_library_reads_it() -> None:
    (batch,) = [MemoryRecords(bytes(build_marker(9, 4, Marker(False, 3), 1_000))).next_batch()]
    assert batch.is_control_batch and batch.is_transactional and batch.producer_id == 9
    (record,) = list(batch)
    assert record.key == b"\0\0\0\0"


def _control(key: bytes | None, value: bytes | None) -> bytearray:
    batch = build_batch([NewRecord(key, value)], 1)
    header = decode_header(batch)._replace(attributes=CONTROL)
    batch[:61] = encode_header(header)
    stamp_checksum(batch)
    return batch


def test_control_batches_of_other_kinds_are_left_alone() -> None:
    batch = _control(b"\0\0\0\x05", b"")
    assert read_marker(batch, check(batch)) is None


def test_a_control_batch_that_compaction_emptied_says_nothing() -> None:
    batch = opaque_batch(1, b"", attributes=CONTROL)
    assert read_marker(batch, decode_header(batch)._replace(count=0)) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0", b"\0\0\0\1\0"])
def test_what_nobody_writes_is_damaged(key: bytes | None) -> None:
    batch = _control(key, b"\0\0\0\0\0\0")
    with pytest.raises(CorruptBatch):
        read_marker(batch, check(batch))
