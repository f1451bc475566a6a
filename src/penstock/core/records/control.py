"""Control batches: the markers that end a transaction in one partition.

As in Kafka a marker is a batch of one record under the producer's id and epoch. Its key is a version and a type, its
value a version and the epoch of the coordinator that wrote it.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from penstock.core.errors import CorruptBatch
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import NO_EPOCH, NewRecord
from penstock.core.records.batch import (
    CONTROL,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    encode_header,
    stamp_checksum,
)
from penstock.core.records.build import open_batch
from penstock.core.records.payload import encode_records

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0
_ABORT, _COMMIT = 0, 1
_NO_SEQUENCE = -1


class Marker(NamedTuple):
    """How a transaction ended, and the epoch of its coordinator."""

    is_commit: bool
    coordinator_epoch: int


def build_marker(producer_id: int, producer_epoch: int, marker: Marker, now_ms: int) -> bytearray:
    """The batch that ends a producer's open transaction."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    payload = encode_records([NewRecord(key, value, timestamp_ms=now_ms)], now_ms)
    header = BatchHeader(
        base_offset=0,
        length=BATCH_HEADER_BYTES - PREFIX_BYTES + len(payload),
        leader_epoch=NO_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=CONTROL | TRANSACTIONAL,
        last_offset_delta=0,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=_NO_SEQUENCE,
        count=1,
    )
    batch = bytearray(encode_header(header)) + payload
    stamp_checksum(batch)
    return batch


def read_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The marker of a control batch; None for other control types and for one emptied by compaction.

    Raises CorruptBatch if the batch is not a valid control batch.
    """
    if header.count == 0:
        return None
    record = open_batch(batch, header)[0]
    try:
        _, kind = _KEY.unpack(record.key or b"")
        if kind not in (_ABORT, _COMMIT):
            return None
    except StructError:
        raise CorruptBatch(f"the control batch at offset {header.base_offset} has no valid marker") from None
    value = record.value or b""
    return Marker(kind == _COMMIT, _VALUE.unpack_from(value)[1] if len(value) >= _VALUE.size else NO_EPOCH)
