"""Builds a batch from records, decodes a batch into records, and recompresses its payload."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.limits import BATCH_HEADER_BYTES, DECOMPRESSED_BYTES_MAX
from penstock.core.model import NO_EPOCH, NO_PRODUCER, NO_TIMESTAMP, NewRecord, Record
from penstock.core.records.batch import (
    CODEC_MASK,
    MAGIC,
    PREFIX_BYTES,
    BatchHeader,
    Buffer,
    decode_header,
    encode_header,
    stamp_checksum,
)
from penstock.core.records.compression import compress, decompress
from penstock.core.records.payload import decode_records, encode_records


def build_batch(records: Sequence[NewRecord], now_ms: int, codec: int = 0) -> bytearray:
    """One batch of at least one record, without a producer id; records without a timestamp get `now_ms`."""
    assert records, "a batch has at least one record"
    times = [now_ms if one.timestamp_ms == NO_TIMESTAMP else one.timestamp_ms for one in records]
    base_ms = times[0]
    if base_ms != now_ms:  # records without a timestamp are encoded with the base, which is then another time
        records = [one._replace(timestamp_ms=time_ms) for one, time_ms in zip(records, times, strict=True)]
    payload = compress(codec, encode_records(records, base_ms))
    return seal_batch(payload, len(records), base_ms, max(times), codec)


def seal_batch(payload: Buffer, count: int, base_ms: int, max_ms: int, codec: int = 0) -> bytearray:
    """One batch without a producer id around encoded records, compressed with this codec."""
    header = BatchHeader(
        base_offset=0,
        length=BATCH_HEADER_BYTES - PREFIX_BYTES + len(payload),
        leader_epoch=NO_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max_ms,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_EPOCH,
        base_sequence=-1,
        count=count,
    )
    batch = bytearray(encode_header(header)) + payload
    stamp_checksum(batch)
    return batch


def stamp_producer(batch: bytearray, producer_id: int, epoch: int, sequence: int) -> None:
    """Give a batch to an idempotent producer: a partition appends it once, however often it is sent."""
    header = decode_header(batch)._replace(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    batch[:BATCH_HEADER_BYTES] = encode_header(header)
    stamp_checksum(batch)


def payload_of(batch: Buffer, header: BatchHeader) -> bytes:
    """The records of a batch, decompressed."""
    return decompress(header.codec, batch[BATCH_HEADER_BYTES : header.size], DECOMPRESSED_BYTES_MAX)


def open_batch(batch: Buffer, header: BatchHeader) -> list[Record]:
    """All records of a batch, with offsets and timestamps."""
    append_time_ms = header.max_timestamp_ms if header.has_append_time else None
    return decode_records(
        payload_of(batch, header),
        header.count,
        header.base_offset,
        header.base_timestamp_ms,
        log_append_time_ms=append_time_ms,
    )


def open_batches(content: Buffer) -> list[Record]:
    """All records of a run of batches, without control batches."""
    records: list[Record] = []
    position = 0
    view = memoryview(content)
    while position < len(view):
        header = decode_header(view, position)
        if not header.is_control:
            records += open_batch(view[position : position + header.size], header)
        position += header.size
    return records


def recompress(header: BatchHeader, payload: Buffer, codec: int) -> tuple[bytearray, BatchHeader]:
    """A batch with this header around uncompressed records, compressed with another codec."""
    packed = compress(codec, payload)
    changed = header._replace(
        length=BATCH_HEADER_BYTES - PREFIX_BYTES + len(packed),
        attributes=header.attributes & ~CODEC_MASK | codec,
    )
    rebuilt = bytearray(encode_header(changed)) + packed
    stamp_checksum(rebuilt)
    return rebuilt, decode_header(rebuilt)
