"""Sample batches and logs for tests."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.codecs import GZIP, ZSTD
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log.log import Log, LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.model import NewRecord
from penstock.core.ports import Files
from penstock.core.records.batch import (
    PREFIX_BYTES,
    BatchHeader,
    decode_header,
    encode_header,
    stamp_checksum,
)
from penstock.core.records.build import build_batch
from penstock.core.records.compression import compress
from penstock.core.records.payload import encode_records
from penstock.core.records.varint import encode

LIMITS = LogLimits(segment_bytes=1_000, segment_ms=10**12, index_interval_bytes=100)
DIRECTORY = "topics/orders-0"


def opaque_batch(
    count: int = 1,
    payload: bytes = b"x" * 10,
    *,
    time_ms: int = 1_000,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
) -> bytearray:
    """A batch whose records are no records: the log never looks at them."""
    header = BatchHeader(
        base_offset=0,
        length=BATCH_HEADER_BYTES - PREFIX_BYTES + len(payload),
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        count=count,
    )
    batch = bytearray(encode_header(header)) + payload
    stamp_checksum(batch)
    return batch


def keyed_batch(
    pairs: list[tuple[bytes | None, bytes | None]], *, time_ms: int = 1_000, codec: int = 0
) -> bytearray:
    """A batch of real records."""
    return build_batch([NewRecord(key, value, timestamp_ms=time_ms) for key, value in pairs], time_ms, codec)


def filled_batch(
    count: int = 1,
    payload: bytes = b"x" * 10,
    *,
    time_ms: int = 1_000,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
) -> bytearray:
    """A batch of `count` records that all carry this payload."""
    batch = build_batch([NewRecord(None, payload, timestamp_ms=time_ms)] * count, time_ms)
    return with_header(
        batch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        attributes=attributes,
    )


def with_header(batch: bytearray, **changes: int) -> bytearray:
    """The batch with fields of its header replaced and the checksum made right again."""
    changed = bytearray(encode_header(decode_header(batch)._replace(**changes))) + batch[BATCH_HEADER_BYTES:]
    stamp_checksum(changed)
    return changed


def garbage() -> Iterator[tuple[str, bytearray]]:
    """Batches with right checksums that no reader can open, or not to their end."""
    records = [NewRecord(b"k", b"v", timestamp_ms=1_000)] * 3
    packed = compress(GZIP, encode_records(records, 1_000))[:-12]
    equal = encode_records(records[:1], 1_000) * 3
    huge = b"".join(
        encode(len(body)) + body
        for body in (b"\0\0" + encode(delta) + b"\x02k\x02v\0" for delta in (2**30, 2**30 + 1, 2**30 + 2))
    )
    yield "random bytes", opaque_batch(3, b"\x8f\x13\x99random bytes\xff\xfe")
    yield "broken gzip", opaque_batch(3, packed, attributes=GZIP)
    yield "equal deltas", opaque_batch(3, equal)
    yield "huge deltas", opaque_batch(3, huge)
    yield "nothing", opaque_batch(3, b"")
    yield "an unfolding bomb", opaque_batch(3, compress(ZSTD, bytes(80 << 20)), attributes=ZSTD)


def reopen(
    files: Files,
    *,
    recovery_offset: int = 0,
    limits: LogLimits = LIMITS,
    now_ms: int = 1_000,
    refuses_damage: bool = False,
) -> tuple[Log, list[str]]:
    """The log as it is found on disk, and what recovery had to say. What need not be synced first is committed."""
    words: list[str] = []
    log = open_log(
        files,
        DIRECTORY,
        limits,
        recovery_offset=recovery_offset,
        now_ms=now_ms,
        report=words.append,
        refuses_damage=refuses_damage,
    )
    if not log.is_dirty:
        log.advance(log.synced_offset)
    return log, words


def append(log: Log, batch: bytearray, *, epoch: int = 0, now_ms: int = 1_000) -> int:
    return log.append(batch, decode_header(batch), epoch, now_ms)


def sync(log: Log) -> None:
    """Do what the owner does on one node: what is synced is committed."""
    plan = log.take_dirty()
    for file in plan.files:
        file.sync()
    log.mark_synced(plan)
    log.advance(log.synced_offset)
