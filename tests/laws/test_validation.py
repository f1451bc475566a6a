"""What full validation lets in can be read: by our own decoder, by others', and by both kinds of loops alike."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from log_samples import with_header
from penstock.core.errors import BrokerError
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import Header, NewRecord
from penstock.core.records import walk_loops
from penstock.core.records.admission import admit, admit_now
from penstock.core.records.batch import Buffer, check, check_produced, stamp_checksum
from penstock.core.records.build import build_batch, open_batch
from penstock.core.records.columns import WantedRows, decode_columns
from penstock.core.records.compression import compress
from penstock.core.records.loops import compiled_loops, load_loops
from penstock.core.records.payload import encode_records
from penstock.core.topic_config import resolve

NOW_MS = 1_700_000_000_000
ANYTHING = resolve({"message.timestamp.after.max.ms": str(2**62)}, {})
COMPACTED = resolve({"cleanup.policy": "compact"}, {})

content = st.none() | st.binary(max_size=12) | st.sampled_from([b"x" * 63, b"y" * 64, b"z" * 9_000])
headers = st.lists(st.builds(Header, st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
record = st.builds(
    NewRecord, content, content, headers.map(tuple), st.integers(NOW_MS - 10**10, NOW_MS + 10**10)
)
records = st.lists(record, min_size=1, max_size=12)
edits = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=3)


def admitted(batch: bytearray) -> Buffer | None:
    """The batch as the log would get it, or None when it is refused."""
    try:
        return admit(memoryview(batch), check_produced(batch), ANYTHING, NOW_MS)[0]
    except BrokerError:
        return None


def read_everywhere(batch: Buffer) -> None:
    """Our own decoder, the columns for Spark, kafka-python and aiokafka all see the same records."""
    header = check(batch)
    ours = open_batch(batch, header)
    assert [one.offset for one in ours] == list(range(header.count))
    assert max([-1, *(one.timestamp_ms for one in ours)]) == header.max_timestamp_ms
    pairs = [(one.key, one.value) for one in ours]
    wanted = WantedRows("orders", 0, 0, 2**62, with_headers=True)
    unfolded = decode_columns(bytes(batch), wanted, [], load_loops("columns"))
    keys, values = (
        [one.as_py() for part in unfolded.batches for one in part[name]] for name in ("key", "value")
    )
    assert list(zip(keys, values, strict=True)) == pairs
    theirs: list[Any] = list(MemoryRecords(bytes(batch)).next_batch())
    assert [(one.key, one.value) for one in theirs] == pairs
    others: list[Any] = list(DefaultRecordBatch(bytes(batch)))
    assert [(one.offset, one.key, one.value) for one in others] == [
        (one.offset, one.key, one.value) for one in ours
    ]


@given(records, st.integers(0, 4))
def test_what_clients_build_is_let_in_unchanged(built: list[NewRecord], codec: int) -> None:
    batch = build_batch(built, NOW_MS, codec)
    before = bytes(batch)
    assert admitted(batch) == before
    read_everywhere(before)


@settings(max_examples=60)
@given(records, st.integers(0, 4), edits)
def test_a_changed_batch_is_refused_or_readable(
    built: list[NewRecord], codec: int, changes: list[tuple[int, int]]
) -> None:
    """Changes to the records before they are compressed, under a checksum that is right."""
    payload = bytearray(encode_records(built, NOW_MS))
    for at, byte in changes:
        payload[at % len(payload)] = byte
    packed = compress(codec, bytes(payload))
    batch = build_batch(built, NOW_MS)[:BATCH_HEADER_BYTES] + packed
    batch = with_header(batch, attributes=codec, length=len(batch) - 12, base_timestamp_ms=NOW_MS)
    let_in = admitted(batch)
    if let_in is not None:
        read_everywhere(let_in)


@settings(max_examples=60)
@given(records, st.integers(0, 4), edits)
def test_a_batch_changed_anywhere_is_refused_or_readable(
    built: list[NewRecord], codec: int, changes: list[tuple[int, int]]
) -> None:
    """Changes to the bytes that are sent, header included."""
    batch = build_batch(built, NOW_MS, codec)
    for at, byte in changes:
        batch[17 + at % (len(batch) - 17)] = byte
    stamp_checksum(batch)
    let_in = admitted(batch)
    if let_in is not None:
        read_everywhere(let_in)


@given(records, edits, st.integers(-1, 14), st.integers(0, 3), st.booleans(), st.booleans())
def test_both_kinds_of_loops_agree(
    built: list[NewRecord],
    changes: list[tuple[int, int]],
    count: int,
    indexes_max: int,
    checks_times: bool,
    needs_keys: bool,
) -> None:
    compiled = compiled_loops("walk")
    if compiled is None:
        pytest.skip("the loops were not compiled here")
    payload = encode_records(built, NOW_MS)
    changed = bytearray(payload)
    for at, byte in changes:
        changed[at % len(changed)] = byte
    for data in (payload, bytes(changed), payload[:-1]):
        terms = (data, 0, count, NOW_MS, NOW_MS, NOW_MS + 10**9, checks_times, needs_keys, indexes_max)
        assert compiled.check_records(*terms) == walk_loops.check_records(*terms)
        sound = (data, 0, count, NOW_MS, NOW_MS - 10**9, NOW_MS + 10**11, needs_keys, NOW_MS)
        assert compiled.is_valid(*sound) == walk_loops.is_valid(*sound)
        for bounds in ((indexes_max, -(2**63)), (0, 10**9), (2, -5)):
            assert compiled.seek(data, 0, count, *bounds) == walk_loops.seek(data, 0, count, *bounds)


@given(
    st.lists(
        st.builds(NewRecord, content, content, timestamp_ms=st.integers(0, 70) | st.just(8_192)),
        min_size=1,
        max_size=80,
    ),
    edits | st.just([]),
    st.sampled_from([0, NOW_MS, 2**61 - 1, 2**62, 2**63 - 9_001, -(2**61), -(2**63)]),
    st.tuples(st.sampled_from([-(2**63), -5, 0]), st.sampled_from([50, 70, 9_000])),
    st.booleans(),
)
def test_both_kinds_of_loops_agree_on_usual_records(
    built: list[NewRecord],
    changes: list[tuple[int, int]],
    base_ms: int,
    bounds: tuple[int, int],
    needs_keys: bool,
) -> None:
    """Many small records with times close together take the short way."""
    compiled = compiled_loops("walk")
    if compiled is None:
        pytest.skip("the loops were not compiled here")
    data = bytearray(encode_records(built, 0))
    for at, byte in changes:
        data[at % len(data)] = byte
    oldest_ms = max(base_ms + bounds[0], -(2**63))
    for end in (len(data), len(data) - 1, len(data) // 2):
        terms = (data[:end], 0, len(built), base_ms, oldest_ms, base_ms + bounds[1])
        assert compiled.check_records(*terms, True, needs_keys, 3) == walk_loops.check_records(
            *terms, True, needs_keys, 3
        )
        newest_ms = base_ms + max(one.timestamp_ms for one in built)
        assert compiled.is_valid(*terms, needs_keys, newest_ms) == walk_loops.is_valid(
            *terms, needs_keys, newest_ms
        )


@given(records, st.integers(0, 4))
def test_the_loop_and_a_worker_decide_alike(built: list[NewRecord], codec: int) -> None:
    batch = build_batch(built, NOW_MS, codec)
    outcomes = []
    for entrance in (admit, admit_now):
        copy = memoryview(bytearray(batch))
        try:
            outcome: Any = entrance(copy, check_produced(copy), COMPACTED, NOW_MS)
        except BrokerError as error:
            outcome = str(error)
        outcomes.append(outcome)
    assert outcomes[1] is None or outcomes[0] == outcomes[1]
