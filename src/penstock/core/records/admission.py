"""Validates a produced batch record by record and converts it to its topic's format. No I/O.

Checks the number of records, their offset deltas (0, 1, 2, …), all lengths, headers, timestamps and, on compacted
topics, keys. `admit_now` is for the event loop and leaves expensive batches to `admit`, which runs in a worker.
With `penstock.validation=header` only the header is checked.
"""

from __future__ import annotations

from penstock.core.codecs import CODEC_NAMES
from penstock.core.errors import CorruptBatch, InvalidRecord, InvalidTimestamp, TooLarge
from penstock.core.limits import (
    BATCH_HEADER_BYTES,
    LOOP_COMPRESSED_BYTES_MAX,
    LOOP_DECOMPRESSED_BYTES_MAX,
    RECORD_ERRORS_MAX,
)
from penstock.core.records.batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    decode_header,
    stamp_append_time,
    stamp_times,
)
from penstock.core.records.build import recompress
from penstock.core.records.compression import decompress, decompressed_bytes_max
from penstock.core.records.loops import load_loops
from penstock.core.records.payload import RECORD_BYTES_MIN
from penstock.core.records.walk_findings import FINE, OFFSET, TIME, TRAILING, Checked
from penstock.core.topic_config import TimestampType, TopicConfig, Validation

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_check_records = load_loops("walk").check_records
is_valid = load_loops("walk").is_valid
"""Whether uncompressed records are valid and need no change; `admit` finds the reason if not."""

Admitted = tuple[memoryview, BatchHeader]
"""A batch as it is appended, and its header."""


def has_fast_path(config: TopicConfig) -> bool:
    """Whether a topic's settings let batches that pass `is_valid` be admitted unchanged."""
    return (
        config.validation is Validation.FULL
        and config.compression_codec is None
        and config.timestamp_type is TimestampType.CREATE_TIME
    )


def is_heavy(header: BatchHeader, size: int, config: TopicConfig) -> bool:
    """Whether admission certainly takes too long for the event loop: much to decompress or recompress."""
    if size <= LOOP_COMPRESSED_BYTES_MAX:
        return False
    if config.compression_codec is not None and config.compression_codec != header.codec:
        return True
    return header.codec != 0 and config.validation is Validation.FULL


def admit_now(batch: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int) -> Admitted | None:
    """Admit the batch immediately; None if a worker must do it."""
    if header.codec == 0 and config.compression_codec is None:
        return _admit(batch, header, config, now_ms, batch)
    if is_heavy(header, len(batch), config):
        return None
    try:
        content = _content(batch, header, config, LOOP_DECOMPRESSED_BYTES_MAX)
    except TooLarge:
        return None
    return _admit(batch, header, config, now_ms, content)


def admit(batch: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int) -> Admitted:
    """Reject the batch, or return it in the topic's format. Compressed batches take time: not for the event loop."""
    content = _content(batch, header, config, decompressed_bytes_max(config.message_bytes_max))
    return _admit(batch, header, config, now_ms, content)


def _content(
    batch: memoryview, header: BatchHeader, config: TopicConfig, bytes_max: int
) -> memoryview | bytes:
    """The bytes of the records: the batch itself, or its decompressed payload."""
    if not header.codec or (
        config.validation is Validation.HEADER and config.compression_codec in (None, header.codec)
    ):
        return batch
    try:
        return decompress(header.codec, batch[BATCH_HEADER_BYTES:], bytes_max)
    except CorruptBatch as error:
        name = CODEC_NAMES[header.codec]
        raise InvalidRecord(f"cannot decompress the records with {name}: {error}") from None


def _admit(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    now_ms: int,
    content: memoryview | bytes,
) -> Admitted:
    is_append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
    max_ms = header.max_timestamp_ms
    if config.validation is Validation.FULL:
        max_ms = _check(header, config, now_ms, content, BATCH_HEADER_BYTES if content is batch else 0)
    elif not is_append_time:
        _check_header_times(header, config, now_ms)
    if config.compression_codec is not None and config.compression_codec != header.codec:
        payload = batch[BATCH_HEADER_BYTES:] if content is batch else content
        rebuilt, header = recompress(header, payload, config.compression_codec)
        batch = memoryview(rebuilt)
    if is_append_time:
        stamp_append_time(batch, now_ms)
        header = decode_header(batch)
    elif header.max_timestamp_ms != max_ms or header.attributes & LOG_APPEND_TIME:
        # As Kafka does: the header must match the records, because time index and retention use it.
        stamp_times(batch, max_ms)
        header = decode_header(batch)
    return batch, header


def timely(now_ms: int, config: TopicConfig) -> tuple[int, int]:
    """The oldest and newest timestamp that a record may have now."""
    oldest_ms = now_ms - config.timestamp_before_ms_max
    newest_ms = now_ms + config.timestamp_after_ms_max
    return max(oldest_ms, _INT64_MIN), min(newest_ms, _INT64_MAX)


def _check(
    header: BatchHeader, config: TopicConfig, now_ms: int, content: memoryview | bytes, begin: int
) -> int:
    """Validate the records; returns their highest timestamp."""
    if header.count * RECORD_BYTES_MIN > len(content) - begin:
        raise InvalidRecord(f"{header.count} records cannot fit into {len(content) - begin} bytes")
    checked: Checked = _check_records(
        content,
        begin,
        header.count,
        header.base_timestamp_ms,
        *timely(now_ms, config),
        config.timestamp_type is not TimestampType.LOG_APPEND_TIME,
        config.cleanup_compact,
        RECORD_ERRORS_MAX,
    )
    if checked.status != FINE:
        raise InvalidRecord(_structure_error(header, checked))
    if header.attributes & LOG_APPEND_TIME and config.timestamp_type is TimestampType.LOG_APPEND_TIME:
        indexes = tuple(range(min(header.count, RECORD_ERRORS_MAX)))
        raise InvalidTimestamp("a producer must not set the timestamp type to LogAppendTime", indexes)
    if checked.untimely:
        raise _untimely(header, config, now_ms, checked)
    if checked.keyless:
        raise InvalidRecord("a compacted topic accepts only records with a key", checked.keyless)
    return checked.max_timestamp_ms


def _structure_error(header: BatchHeader, checked: Checked) -> str:
    where = f"record {checked.record_index} of {header.count}"
    if checked.status == OFFSET:
        return f"{where}: its offset delta is not {checked.record_index}"
    if checked.status == TIME:
        return f"{where}: its timestamp does not fit into 64 bits"
    if checked.status == TRAILING:
        return f"bytes are left over behind the last of {header.count} records"
    return f"{where}: its lengths contradict each other or the size of the batch"


def _untimely(header: BatchHeader, config: TopicConfig, now_ms: int, checked: Checked) -> InvalidTimestamp:
    return InvalidTimestamp(
        f"timestamps of {len(checked.untimely)} records are more than {config.timestamp_after_ms_max} ms ahead of or"
        f" {config.timestamp_before_ms_max} ms behind the broker's {now_ms}",
        tuple(sorted(checked.untimely + checked.keyless)),
    )


def _check_header_times(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    newest_ms, oldest_ms = header.max_timestamp_ms, header.base_timestamp_ms
    if newest_ms > now_ms + config.timestamp_after_ms_max:
        raise InvalidTimestamp(
            f"timestamp {newest_ms} is more than {config.timestamp_after_ms_max} ms ahead of the broker's {now_ms}"
        )
    if 0 <= oldest_ms < now_ms - config.timestamp_before_ms_max:
        raise InvalidTimestamp(
            f"timestamp {oldest_ms} is more than {config.timestamp_before_ms_max} ms behind the broker's {now_ms}"
        )
