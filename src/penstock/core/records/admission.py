"""What a topic demands of a batch beyond being whole.

Times, keys, compression. Never runs for topics that demand nothing.
"""

from __future__ import annotations

from penstock.core.errors import InvalidRecord, InvalidTimestamp
from penstock.core.records.batch import BatchHeader, decode_header, stamp_append_time
from penstock.core.records.records import iterate_keys
from penstock.core.records.whole import payload_of, recompress
from penstock.core.topic_config import TimestampType, TopicConfig

_FOREVER_MS = 2**63 - 1


def needs_admission(config: TopicConfig) -> bool:
    """Whether batches of this topic have to be looked at more closely, other than for times in the future."""
    return (
        config.cleanup_compact
        or config.timestamp_type is TimestampType.LOG_APPEND_TIME
        or config.compression_codec is not None
        or config.timestamp_before_ms_max < _FOREVER_MS
    )


def admit(
    batch: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """Refuse the batch, or return it as the topic wants it."""
    if config.timestamp_type is not TimestampType.LOG_APPEND_TIME:
        _check_times(header, config, now_ms)
    if config.cleanup_compact:
        _check_keys(batch, header)
    if config.compression_codec is not None and config.compression_codec != header.codec:
        rebuilt, header = recompress(batch, header, config.compression_codec)
        batch = memoryview(rebuilt)
    if config.timestamp_type is TimestampType.LOG_APPEND_TIME:
        stamp_append_time(batch, now_ms)
        header = decode_header(batch)
    return batch, header


def _check_times(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if header.max_timestamp_ms > now_ms + config.timestamp_after_ms_max:
        raise InvalidTimestamp(
            f"timestamp {header.max_timestamp_ms} is more than {config.timestamp_after_ms_max} ms"
            f" ahead of the broker's {now_ms}"
        )
    if 0 <= header.base_timestamp_ms < now_ms - config.timestamp_before_ms_max:
        raise InvalidTimestamp(
            f"timestamp {header.base_timestamp_ms} is more than {config.timestamp_before_ms_max} ms"
            f" behind the broker's {now_ms}"
        )


def _check_keys(batch: memoryview, header: BatchHeader) -> None:
    spans = iterate_keys(payload_of(batch, header), header.count)
    keyless = tuple(index for index, span in enumerate(spans) if span.key is None)
    if keyless:
        raise InvalidRecord("a compacted topic takes only records with a key", keyless)
