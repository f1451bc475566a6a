"""What topics demand of a batch beyond being whole."""

from __future__ import annotations

import pytest

from making import keyed_batch, opaque_batch
from penstock.core.errors import CorruptBatch, InvalidRecord, InvalidTimestamp
from penstock.core.records.admission import admit, needs_admission
from penstock.core.records.batch import check
from penstock.core.records.whole import open_batch
from penstock.core.topic_config import TopicConfig, resolve, validate

NOW_MS = 1_000_000


def config(**overrides: str) -> TopicConfig:
    settings = {key.replace("_", "."): value for key, value in overrides.items()}
    return resolve({key: validate(key, value) for key, value in settings.items()}, {})


def admitted(batch: bytearray, **overrides: str) -> bytes:
    out, header = admit(memoryview(batch), check(batch), config(**overrides), NOW_MS)
    assert check(out) == header
    return bytes(out)


def test_an_ordinary_topic_looks_at_nothing() -> None:
    assert not needs_admission(config())
    assert not needs_admission(config(compression_type="producer"))
    for overrides in (
        {"cleanup_policy": "compact"},
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "gzip"},
        {"message_timestamp_before_max_ms": "5"},
    ):
        assert needs_admission(config(**overrides))


def test_times_too_far_from_now_are_refused() -> None:
    window = {"message_timestamp_before_max_ms": "100", "message_timestamp_after_max_ms": "50"}
    for time_ms in (NOW_MS - 100, NOW_MS, NOW_MS + 50, -1):
        batch = opaque_batch(time_ms=time_ms)
        assert admitted(batch, **window) == batch
    for time_ms in (NOW_MS - 101, NOW_MS + 51):
        with pytest.raises(InvalidTimestamp):
            admitted(opaque_batch(time_ms=time_ms), **window)
        stamped = admitted(opaque_batch(time_ms=time_ms), message_timestamp_type="LogAppendTime", **window)
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


def test_a_compacted_topic_wants_records_that_are_records() -> None:
    with pytest.raises(CorruptBatch):
        admitted(opaque_batch(), cleanup_policy="compact")


def test_a_topic_that_names_a_compression_gets_it() -> None:
    plain = keyed_batch([(b"a", b"1" * 300)])
    packed = admitted(plain, compression_type="zstd")
    assert check(packed).codec == 4 and len(packed) < len(plain)
    assert open_batch(packed, check(packed)) == open_batch(plain, check(plain))
    assert admitted(bytearray(packed), compression_type="zstd") == packed, "it has it already"
