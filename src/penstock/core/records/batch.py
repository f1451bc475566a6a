"""Record batch v2: the 61-byte header, its checksum and the fields that the log stamps. Never reads the records.

The checksum does not cover base offset and leader epoch, so the log stamps them into the producer's bytes without
changing anything else.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from penstock.core.errors import CorruptBatch, InvalidRecord, UnsupportedCompression
from penstock.core.limits import BATCH_HEADER_BYTES

MAGIC = 2
CODEC_MASK = 0x07
CODEC_LAST = 4
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The base timestamp is the time at which compaction may delete the batch's tombstones. Set only by compaction."""

_new = tuple.__new__
_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_LENGTH = Struct(">i")

LENGTH_AT = 8
EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35
PREFIX_BYTES = 12
"""Base offset and length, which the length field does not count."""

assert _HEADER.size == BATCH_HEADER_BYTES

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The header fields, undecoded."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not needed

    @property
    def size(self) -> int:
        """Size of the batch, including its header."""
        return self.length + PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def has_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)


def encode_header(header: BatchHeader) -> bytes:
    """The 61 bytes of a header."""
    return _HEADER.pack(*header)


def decode_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Raises CorruptBatch if it is invalid."""
    if len(buffer) - position < BATCH_HEADER_BYTES:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too few for a batch header")
    header: BatchHeader = _new(BatchHeader, _HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic} is not record batch v2")
    if header.length < BATCH_HEADER_BYTES - PREFIX_BYTES:
        raise CorruptBatch(f"batch length {header.length} is shorter than its own header")
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise CorruptBatch(f"offsets {header.base_offset}+{header.last_offset_delta} are negative")
    return header


def checksum(batch: Buffer) -> int:
    """CRC32C over everything from the attributes on."""
    return int(crc32c(bytes(batch[ATTRIBUTES_AT:])))


def check(batch: Buffer) -> BatchHeader:
    """Decode the header of exactly one batch and verify its checksum."""
    header = decode_header(batch)
    if header.length + PREFIX_BYTES != len(batch):
        raise CorruptBatch(f"the batch's length is {header.length + PREFIX_BYTES} bytes, got {len(batch)}")
    if checksum(batch) != header.crc:
        raise CorruptBatch(f"checksum of the batch at offset {header.base_offset} does not match its bytes")
    return header


def check_produced(batch: Buffer) -> BatchHeader:
    """Validate the header of a produced batch: one batch, dense offsets, at least one record, no control batch."""
    header = decode_header(batch)
    if header.length + PREFIX_BYTES < len(batch):
        raise InvalidRecord("a produce request carries exactly one batch per partition")
    if header.length + PREFIX_BYTES > len(batch):
        raise InvalidRecord(f"the batch's length is {header.length + PREFIX_BYTES} bytes, got {len(batch)}")
    if crc32c(bytes(batch[ATTRIBUTES_AT:])) != header.crc:
        raise CorruptBatch("checksum of the produced batch does not match its bytes")
    if header.base_offset:
        raise InvalidRecord(f"the base offset of a produced batch is 0, not {header.base_offset}")
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        raise InvalidRecord(f"{header.count} records cannot span {header.last_offset_delta + 1} offsets")
    if header.attributes & (CONTROL | DELETE_HORIZON):
        raise InvalidRecord("clients may not write control batches or delete horizons")
    if header.attributes & CODEC_MASK > CODEC_LAST:
        raise UnsupportedCompression(f"unknown compression codec {header.attributes & CODEC_MASK}")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord("a batch with a producer id needs an epoch and a sequence")
    return header


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write the assigned offset and epoch into the batch; the checksum does not cover them."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, EPOCH_AT, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """Convert the batch to LogAppendTime: flag, timestamp and a new checksum."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(batch, MAX_TIMESTAMP_AT, now_ms)
    stamp_checksum(batch)


def stamp_times(batch: bytearray | memoryview, max_timestamp_ms: int) -> None:
    """Convert the batch to CreateTime with this maximum timestamp."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME)
    _OFFSET.pack_into(batch, MAX_TIMESTAMP_AT, max_timestamp_ms)
    stamp_checksum(batch)


def stamp_checksum(batch: bytearray | memoryview) -> None:
    """Recompute the checksum after a change."""
    _CRC.pack_into(batch, CRC_AT, checksum(batch))


def size_at(buffer: Buffer, position: int) -> int:
    """Size of the batch at `position`, from its length field alone."""
    size: int = _LENGTH.unpack_from(buffer, position + LENGTH_AT)[0] + PREFIX_BYTES
    return size
