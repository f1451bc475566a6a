"""Which fetched batches a reader sees: transactions aborted, committed, interleaved, or cut off by a fetch."""

from __future__ import annotations

import pytest

from penstock.core.errors import CorruptBatch
from penstock.core.model import NewRecord
from penstock.core.records.batch import (
    CONTROL,
    TRANSACTIONAL,
    decode_header,
    encode_header,
    stamp,
    stamp_checksum,
)
from penstock.core.records.build import build_batch
from penstock.core.records.control import Marker, build_marker
from penstock.core.records.visibility import AbortedProducer, VisibleBatches


def records(producer: int, count: int = 1, attributes: int = TRANSACTIONAL) -> bytearray:
    batch = build_batch([NewRecord(None, b"x")] * count, 1_000)
    header = decode_header(batch)._replace(attributes=attributes, producer_id=producer, producer_epoch=0)
    batch[: len(encode_header(header))] = encode_header(header)
    stamp_checksum(batch)
    return batch


def marker(producer: int, *, is_commit: bool) -> bytearray:
    return build_marker(producer, 0, Marker(is_commit=is_commit, coordinator_epoch=0), 1_000)


def shown(batches: list[bytearray], aborted: list[tuple[int, int]], first: int = 0) -> list[int]:
    """The base offsets of the visible batches; those before `first` were not fetched."""
    visible = VisibleBatches([AbortedProducer(*one) for one in aborted])
    found, offset = [], 0
    for batch in batches:
        stamp(memoryview(batch), offset, 0)
        header = decode_header(batch)
        if header.next_offset > first and visible.shows(batch, header):
            found.append(offset)
        offset = header.next_offset
    return found


def test_interleaved_transactions() -> None:
    batches = [
        records(1),  # 0: aborted by 4
        records(2, 2),  # 1: committed by 5
        records(9, attributes=0),  # 3: not in a transaction
        marker(1, is_commit=False),  # 4
        marker(2, is_commit=True),  # 5
        records(1),  # 6: the next transaction of the same producer, committed
        marker(1, is_commit=True),  # 7
        records(1, 3),  # 8: aborted again
        records(2),  # 11
        marker(1, is_commit=False),  # 12
        records(1),  # 13
    ]
    assert shown(batches, [(1, 0), (1, 8)]) == [1, 3, 6, 11, 13]
    assert shown(batches, [(1, 8), (1, 0)]) == [1, 3, 6, 11, 13], "in any order"
    assert shown(batches, []) == [0, 1, 3, 6, 8, 11, 13], "read_uncommitted"
    assert shown(batches, [(1, 0), (1, 8)], first=1) == [1, 3, 6, 11, 13], "it began before the fetch"
    assert shown(batches, [(1, 8)], first=9) == [11, 13], "the fetch starts within it"


def test_a_control_batch_without_a_marker_is_damage() -> None:
    batch = records(1, attributes=TRANSACTIONAL | CONTROL)
    with pytest.raises(CorruptBatch):
        VisibleBatches([]).shows(batch, decode_header(batch))
