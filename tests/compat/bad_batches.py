"""Record batches that contradict themselves, each with a right checksum unless the checksum is the fault.

Never talks to a broker: a case is bytes, the settings of the topic they are sent to, and what brokers answer.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Mapping
from typing import NamedTuple

from log_samples import with_header
from penstock.core.codecs import GZIP, LZ4, SNAPPY, ZSTD
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import NewRecord
from penstock.core.records.batch import CONTROL, CRC_AT, DELETE_HORIZON, LOG_APPEND_TIME
from penstock.core.records.build import build_batch
from penstock.core.records.compression import compress
from penstock.core.records.varint import encode

NONE, UNKNOWN, CORRUPT, UNSUPPORTED_COMPRESSION, INVALID_TIMESTAMP, INVALID_RECORD = 0, -1, 2, 76, 32, 87
DAY_MS = 86_400_000


class Case(NamedTuple):
    """One produced batch. `ours` and `kafkas`: error code and indexes of the records named in the answer."""

    name: str
    batch: bytes
    ours: tuple[int, list[int]]
    kafkas: tuple[int, list[int]]
    configs: Mapping[str, str]
    why_different: str = ""


def now_ms() -> int:
    return int(time.time() * 1000)


def good(records: int = 3, codec: int = 0, **changes: int) -> bytearray:
    """A batch of small records, with fields of its header changed."""
    made = [NewRecord(b"k%d" % number, b"value", timestamp_ms=now_ms()) for number in range(records)]
    return with_header(build_batch(made, now_ms(), codec), **changes)


def record(
    offset_delta: int = 0,
    *,
    time_delta: int = 0,
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\0",
    extra: int = 0,
) -> bytes:
    """One record from its parts; `extra` is added to its length."""
    body = b"\0" + encode(time_delta) + encode(offset_delta) + key + value + headers
    return encode(len(body) + extra) + body


def holding(payload: bytes, count: int = 3, codec: int = 0, **changes: int) -> bytearray:
    """A batch that says it has `count` records and carries these bytes."""
    changes = {"last_offset_delta": count - 1, "count": count, "attributes": codec, **changes}
    header = good(1)[:BATCH_HEADER_BYTES]
    return with_header(
        with_header(header, length=BATCH_HEADER_BYTES - 12 + len(payload)) + payload, **changes
    )


def packed(payload: bytes, codec: int, count: int = 3) -> bytearray:
    return holding(compress(codec, payload), count, codec)


def _flipped(batch: bytearray, at: int) -> bytearray:
    batch[at] ^= 1
    return batch


def _dense(count: int = 3) -> bytes:
    return b"".join(record(delta) for delta in range(count))


def _timed(*offsets_ms: int, codec: int = 0) -> bytearray:
    base_ms = now_ms()
    return build_batch(
        [NewRecord(b"k", b"v", timestamp_ms=base_ms + one) for one in offsets_ms], base_ms, codec
    )


_BROKEN = b"\x1f\x8b\x08\0" + b"broken" * 10
_OFFSETS = "Kafka stores the deltas as they are, and consumers skip or repeat records"
_CRASH = "Kafka answers UNKNOWN_SERVER_ERROR: what its reader throws is no error of the protocol"
_NULLS = "Kafka takes every negative length for null; librdkafka and kafka-python do not"
_ATTRIBUTES = "no attributes of records are defined, and kafka-python misreads the high bit"
_NAMES = "kafka-python cannot read such a batch"
_WRAPS = "Kafka's sum wraps around, and the result is out of range"
_HORIZON = "only compaction sets a delete horizon"
_TRAILING = "Python's gzip cannot read such a batch"


def _same(name: str, batch: bytes | bytearray, code: int, *indexes: int, **configs: str) -> Case:
    return Case(name, bytes(batch), (code, list(indexes)), (code, list(indexes)), configs)


def _stricter(
    name: str, batch: bytes | bytearray, kafkas: int, why: str, *indexes: int, ours: int = INVALID_RECORD
) -> Case:
    """A batch that Kafka accepts, or refuses with another error."""
    return Case(name, bytes(batch), (ours, []), (kafkas, list(indexes)), {}, why)


def cases() -> list[Case]:
    """Every case, with timestamps of about now."""
    return [*_framing(), *_records(), *_packed(), *_topics()]


def _framing() -> list[Case]:
    two = good(1) + good(1)
    return [
        _same("good", good(), NONE),
        _same("wrong checksum", _flipped(good(), CRC_AT), CORRUPT),
        _same("two batches", two, INVALID_RECORD),
        _same("cut short", good()[:-1], INVALID_RECORD),
        _same("base offset 5", good(base_offset=5), INVALID_RECORD),
        _same("no records", holding(b"", 0, last_offset_delta=0), INVALID_RECORD),
        _same("an empty batch of 2^31-1 records", holding(b"", 2**31 - 1), INVALID_RECORD),
        _same("count and offsets differ", good(last_offset_delta=7), INVALID_RECORD),
        _same("negative count", good(count=-1), INVALID_RECORD),
        _same("control batch", good(1, attributes=CONTROL), INVALID_RECORD),
        _same("no sequence", good(1, producer_id=4, producer_epoch=0), INVALID_RECORD),
        _stricter("codec 7", good(1, attributes=7), UNKNOWN, _CRASH, ours=UNSUPPORTED_COMPRESSION),
        _stricter("delete horizon", good(1, attributes=DELETE_HORIZON), NONE, _HORIZON),
    ]


def _records() -> list[Case]:
    many = b"".join(record(delta) for delta in (0, 0, 0))
    return [
        _same("random bytes", holding(b"\x8f\x13\x99random bytes\xff\xfe\x80" * 3), INVALID_RECORD),
        _same("fewer records than counted", holding(_dense(2)), INVALID_RECORD),
        _same("more records than counted", holding(_dense(4)), INVALID_RECORD),
        _same("last record cut short", holding(_dense()[:-2]), INVALID_RECORD),
        _same("record too long", holding(record(0, extra=1), 1), INVALID_RECORD),
        _same("record too short", holding(record(0, extra=-1) + b"\0", 1), INVALID_RECORD),
        _same("negative record length", holding(b"\x01" + _dense(1), 1), INVALID_RECORD),
        _same("key past the end", holding(record(0, key=b"\xa0\x1f"), 1), INVALID_RECORD),
        _same("value past the end", holding(record(0, value=b"\xa0\x1f"), 1), INVALID_RECORD),
        _stricter("key length -5", holding(record(0, key=b"\x09"), 1), NONE, _NULLS),
        _stricter("value length -5", holding(record(0, value=b"\x09"), 1), NONE, _NULLS),
        _same("many headers", holding(record(0, headers=encode(1_000_000)), 1), INVALID_RECORD),
        _same("negative headers", holding(record(0, headers=encode(-1)), 1), INVALID_RECORD),
        _same("header without name", holding(record(0, headers=b"\x02\x01\x02v"), 1), INVALID_RECORD),
        _same("header past the end", holding(record(0, headers=b"\x02\x02h\x40v"), 1), INVALID_RECORD),
        _stricter(
            "header name is not UTF-8", holding(record(0, headers=b"\x02\x04\xff\xfe\x02v"), 1), NONE, _NAMES
        ),
        _stricter("record attributes", holding(b"\x10\x80" + _dense(1)[2:], 1), NONE, _ATTRIBUTES),
        _stricter("varint too long", holding(b"\xff" * 11, 1), UNKNOWN, _CRASH),
        _stricter("equal deltas", holding(many), NONE, _OFFSETS),
        _stricter("huge delta", holding(record(2**30), 1), NONE, _OFFSETS),
        _stricter("negative delta", holding(record(-1), 1), NONE, _OFFSETS),
        _stricter(
            "time beyond 64 bits", holding(record(0, time_delta=2**63 - 1), 1), INVALID_TIMESTAMP, _WRAPS, 0
        ),
    ]


def _packed() -> list[Case]:
    codecs = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
    made = []
    for name, codec in codecs.items():
        made += [
            _same(f"good {name}", good(codec=codec), NONE),
            _stricter(f"broken {name}", holding(_BROKEN, 3, codec), UNKNOWN, _CRASH),
            _stricter(f"cut {name}", holding(compress(codec, _dense())[:-9], 3, codec), UNKNOWN, _CRASH),
            _same(
                f"random bytes in {name}",
                packed(b"\x8f\x13\x99random bytes\xff\xfe\x80" * 3, codec),
                INVALID_RECORD,
            ),
            _stricter(f"equal deltas in {name}", packed(record(0) * 3, codec), UNKNOWN, _CRASH),
            _same(f"more records than counted in {name}", packed(_dense(4), codec), INVALID_RECORD),
            _same(f"fewer records than counted in {name}", packed(_dense(2), codec), INVALID_RECORD),
        ]
    trailing = holding(gzip.compress(_dense()) + b"more", 3, GZIP)
    return [*made, _stricter("bytes behind gzip", trailing, NONE, _TRAILING)]


def _topics() -> list[Case]:
    keyless = holding(record(0) + record(1, key=b"\x01") + record(2, key=b"\x01"))
    compact = {"cleanup_policy": "compact"}
    early, late = _timed(0, 0, 0), _timed(0, 5, 3)
    return [
        _same("keyless", keyless, INVALID_RECORD, 1, 2, **compact),
        _same(
            "keyless in gzip",
            packed(record(0) + record(1, key=b"\x01") + record(2, key=b"\x01"), GZIP),
            INVALID_RECORD,
            1,
            2,
            **compact,
        ),
        _same("in the future", _timed(0, DAY_MS, 0), INVALID_TIMESTAMP, 1),
        _same("in the future in gzip", _timed(0, DAY_MS, 0, codec=GZIP), INVALID_TIMESTAMP, 1),
        _same(
            "in the past",
            _timed(0, -DAY_MS, 0),
            INVALID_TIMESTAMP,
            1,
            message_timestamp_before_max_ms=str(DAY_MS // 2),
        ),
        _same(
            "hidden in the future",
            with_header(_timed(0, DAY_MS), max_timestamp_ms=now_ms()),
            INVALID_TIMESTAMP,
            1,
        ),
        _same("max timestamp too low", with_header(late, max_timestamp_ms=1), NONE),
        _same("max timestamp too high", with_header(early, max_timestamp_ms=now_ms() + 1_000), NONE),
        _same("max timestamp far too high", with_header(early, max_timestamp_ms=now_ms() + DAY_MS), NONE),
        _same("append time to CreateTime", with_header(late, attributes=LOG_APPEND_TIME), NONE),
        _same(
            "append time to LogAppendTime",
            with_header(late, attributes=LOG_APPEND_TIME),
            INVALID_TIMESTAMP,
            0,
            1,
            2,
            message_timestamp_type="LogAppendTime",
        ),
    ]
