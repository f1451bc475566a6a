"""What a produced batch must be, record by record, and what topics make of it."""

from __future__ import annotations

import struct

import pytest

from compat.bad_batches import CORRUPT, INVALID_RECORD, INVALID_TIMESTAMP, Case, cases, now_ms
from log_samples import keyed_batch, opaque_batch, with_header
from penstock.core.codecs import GZIP, NONE, ZSTD
from penstock.core.errors import (
    BrokerError,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    TooLarge,
    UnsupportedCompression,
)
from penstock.core.limits import LOOP_COMPRESSED_BYTES_MAX, LOOP_DECOMPRESSED_BYTES_MAX
from penstock.core.records.admission import admit, admit_now
from penstock.core.records.batch import LOG_APPEND_TIME, check, check_produced
from penstock.core.records.build import open_batch
from penstock.core.topic_config import TopicConfig, resolve, validate

NOW_MS = 1_000_000
CODES = {CorruptBatch: CORRUPT, InvalidRecord: INVALID_RECORD, InvalidTimestamp: INVALID_TIMESTAMP}
SKIPPABLE_FRAME = struct.Struct("<II")
SKIPPABLE_MAGIC = 0x184D2A50


def config(**overrides: str) -> TopicConfig:
    settings = {key.replace("_", "."): value for key, value in overrides.items()}
    return resolve({key: validate(key, value) for key, value in settings.items()}, {})


def admitted(batch: bytearray, **overrides: str) -> bytes:
    out, header = admit(memoryview(batch), check(batch), config(**overrides), NOW_MS)
    assert check(out) == header
    return bytes(out)


def opens_on_the_loop(batch: bytearray, **overrides: str) -> bool:
    return admit_now(memoryview(batch), check(batch), config(**overrides), NOW_MS) is not None


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
@pytest.mark.parametrize("entrance", [admit, admit_now])
def test_a_batch_that_contradicts_itself_is_refused(case: Case, entrance: object) -> None:
    batch = memoryview(bytearray(case.batch))
    code, indexes = 0, ()
    try:
        assert callable(entrance)
        entrance(batch, check_produced(batch), config(**case.configs), now_ms())
    except BrokerError as error:
        code = 76 if isinstance(error, UnsupportedCompression) else CODES[type(error)]
        indexes = getattr(error, "indexes", ())
    assert (code, list(indexes)) == case.ours


def test_times_too_far_from_now_are_refused() -> None:
    window = {"message_timestamp_before_max_ms": "100", "message_timestamp_after_max_ms": "50"}
    for validation in ("full", "header"):
        window["penstock_validation"] = validation
        for time_ms in (NOW_MS - 100, NOW_MS, NOW_MS + 50):
            batch = keyed_batch([(None, b"v")], time_ms=time_ms)
            assert admitted(batch, **window) == batch
        for time_ms in (NOW_MS - 101, NOW_MS + 51):
            with pytest.raises(InvalidTimestamp):
                admitted(keyed_batch([(None, b"v")], time_ms=time_ms), **window)
            late = keyed_batch([(None, b"v")], time_ms=time_ms)
            stamped = admitted(late, message_timestamp_type="LogAppendTime", **window)
            assert check(stamped).max_timestamp_ms == NOW_MS, (
                "where the log gives the time, the producer's is nothing"
            )


@pytest.mark.parametrize("codec", range(5))
def test_a_compacted_topic_wants_keys(codec: int) -> None:
    whole = keyed_batch([(b"a", b"1"), (b"", None)], codec=codec)
    assert admitted(whole, cleanup_policy="compact") == whole
    keyless = keyed_batch([(b"a", b""), (None, b""), (b"c", b""), (None, b"")], codec=codec)
    with pytest.raises(InvalidRecord) as refusal:
        admitted(keyless, cleanup_policy="compact")
    assert refusal.value.indexes == (1, 3)


def test_a_relaxed_topic_looks_at_the_header_alone() -> None:
    garbage = opaque_batch()
    assert admitted(garbage, penstock_validation="header", cleanup_policy="compact") == garbage
    with pytest.raises(InvalidRecord):
        admitted(garbage)


def test_the_header_says_the_time_that_the_records_say() -> None:
    batch = with_header(keyed_batch([(None, b"v")], time_ms=700), max_timestamp_ms=5)
    assert check(admitted(batch)).max_timestamp_ms == 700
    claimed = with_header(keyed_batch([(None, b"v")], time_ms=700), attributes=LOG_APPEND_TIME)
    assert not check(admitted(claimed)).has_append_time


def test_a_topic_that_names_a_compression_gets_it() -> None:
    plain = keyed_batch([(b"a", b"1" * 300)])
    packed = admitted(plain, compression_type="zstd")
    assert check(packed).codec == ZSTD and len(packed) < len(plain)
    assert open_batch(packed, check(packed)) == open_batch(plain, check(plain))
    assert admitted(bytearray(packed), compression_type="zstd") == packed, "it has it already"
    assert check(admitted(bytearray(packed), compression_type="uncompressed")).codec == NONE


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_unfolds_to_a_small_multiple_of_what_the_topic_takes(codec: int) -> None:
    values = [(b"k", b"z" * 100_000)] * 20
    batch = keyed_batch(values, codec=codec)
    assert admitted(batch, max_message_bytes="1000000") == batch
    with pytest.raises(TooLarge):
        admitted(batch, max_message_bytes="100000")


def test_a_skippable_frame_buys_no_room() -> None:
    bomb = keyed_batch([(b"k", b"z" * 1_000_000)] * 2, codec=ZSTD)
    frame = SKIPPABLE_FRAME.pack(SKIPPABLE_MAGIC, 60_000) + bytes(60_000)
    padded = with_header(bomb + frame, length=check(bomb).length + len(frame))
    with pytest.raises(TooLarge):
        admitted(padded, max_message_bytes="65536")


def test_what_takes_long_is_left_to_a_worker() -> None:
    small = keyed_batch([(b"k", b"v")], codec=GZIP)
    assert opens_on_the_loop(small)
    bomb = keyed_batch([(b"k", b"z" * LOOP_DECOMPRESSED_BYTES_MAX)], codec=GZIP)
    assert len(bomb) < LOOP_COMPRESSED_BYTES_MAX and not opens_on_the_loop(bomb)
    noise = bytes(range(256)) * (LOOP_COMPRESSED_BYTES_MAX // 128)
    large = keyed_batch([(b"k", noise)])
    assert opens_on_the_loop(large), "what is not compressed costs next to nothing"
    assert not opens_on_the_loop(large, compression_type="gzip")
    stored = with_header(keyed_batch([(b"k", noise)]), attributes=0)
    packed = bytearray(admitted(stored, compression_type="lz4"))
    assert opens_on_the_loop(packed) == (len(packed) <= LOOP_COMPRESSED_BYTES_MAX)
    assert opens_on_the_loop(bomb, penstock_validation="header")
