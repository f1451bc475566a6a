"""Columns are the records: whatever the batches hold, both kinds of loops give what decoding one by one gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_samples import with_header
from penstock.client.raw.loops import compiled_loops
from penstock.core.errors import CorruptBatch
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import Header, NewRecord, Record
from penstock.core.records import columns_loops
from penstock.core.records.batch import LOG_APPEND_TIME, TRANSACTIONAL, decode_header, stamp, stamp_checksum
from penstock.core.records.build import build_batch, open_batches
from penstock.core.records.columns import SCHEMA, SCHEMA_WITH_HEADERS, WantedRows, decode_columns
from penstock.core.records.control import Marker, build_marker
from penstock.core.records.payload import decode_records
from penstock.core.records.visibility import AbortedProducer

EVERYTHING = WantedRows("orders", 3, 0, 2**62, with_headers=True)
NOW_MS = 1_700_000_000_000


def _both_loops() -> list[Any]:
    """The plain loops, and the compiled ones where they were built."""
    found: list[Any] = [pytest.param(columns_loops, id="interpreted")]
    compiled = compiled_loops("columns")
    return found if compiled is None else [*found, pytest.param(compiled, id="compiled")]


LOOPS = _both_loops()

content = st.none() | st.binary(max_size=12) | st.sampled_from([b"x" * 63, b"y" * 64, b"z" * 9_000])
headers = st.lists(st.builds(Header, st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
record = st.builds(
    NewRecord, content, content, headers.map(tuple), st.integers(NOW_MS - 10**10, NOW_MS + 10**10)
)
batch = st.builds(
    lambda records, codec: build_batch(records, NOW_MS, codec),
    st.lists(record, min_size=1, max_size=12),
    st.integers(0, 4),
)


def laid_out(batches: list[bytearray], gaps: list[int]) -> bytes:
    """Batches one after another in a log, with offsets left out before each."""
    offset = 0
    for one, gap in zip(batches, gaps, strict=False):
        offset += gap
        stamp(one, offset, 0)
        offset += decode_header(one).last_offset_delta + 1
    return b"".join(bytes(one) for one in batches[: len(gaps)])


def rows_of(records: list[Record], wanted: WantedRows) -> list[tuple[Any, ...]]:
    return [
        (
            one.key,
            one.value,
            wanted.topic,
            wanted.partition,
            one.offset,
            one.timestamp_ms * 1000,
            [{"key": name, "value": value} for name, value in one.headers] or None,
        )
        for one in records
        if wanted.start_offset <= one.offset < wanted.end_offset
    ]


def rows_in(batches: list[Any]) -> list[tuple[Any, ...]]:
    rows = []
    for one in batches:
        one.validate(full=True)
        names = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
        columns = [one.column(name) for name in names]
        columns[5] = columns[5].cast("int64")
        rows += list(zip(*(column.to_pylist() for column in columns), strict=True))
    return rows


@pytest.mark.parametrize("loops", LOOPS)
@given(data=st.data())
def test_columns_are_the_records(loops: Any, data: st.DataObject) -> None:
    batches = data.draw(st.lists(batch, min_size=1, max_size=4))
    run = laid_out(
        batches, data.draw(st.lists(st.integers(0, 5), min_size=len(batches), max_size=len(batches)))
    )
    start = data.draw(st.integers(0, 20))
    wanted = EVERYTHING._replace(start_offset=start, end_offset=start + data.draw(st.integers(0, 30)))
    found = decode_columns(run, wanted, (), loops)
    assert rows_in(found.batches) == rows_of(open_batches(run), wanted)
    assert all(one.schema == SCHEMA_WITH_HEADERS for one in found.batches)
    without = decode_columns(run, wanted._replace(with_headers=False), (), loops)
    assert all(one.schema == SCHEMA for one in without.batches)
    assert [one.drop_columns(["headers"]) for one in found.batches] == without.batches


@pytest.mark.parametrize("loops", LOOPS)
@given(
    records=st.lists(record, min_size=1, max_size=5),
    flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 3),
    more=st.integers(-1, 1),
)
def test_broken_records_are_corrupt_for_both_or_neither(
    loops: Any, records: list[NewRecord], flips: list[tuple[int, int]], cut: int, more: int
) -> None:
    made = build_batch(records, NOW_MS)
    for at, byte in flips:
        made[BATCH_HEADER_BYTES + at % (len(made) - BATCH_HEADER_BYTES)] = byte
    count = max(0, len(records) + more)
    broken = with_header(made[: len(made) - cut], length=len(made) - cut - 12, count=count)
    try:
        expected = decode_records(
            broken[BATCH_HEADER_BYTES:], count, 0, decode_header(broken).base_timestamp_ms
        )
    except CorruptBatch:
        if count:
            with pytest.raises(CorruptBatch):
                decode_columns(broken, EVERYTHING, (), loops)
        return
    offsets = [one.offset for one in expected]
    is_inside = not offsets or 0 <= offsets[0] <= offsets[-1] < len(records)
    if not is_inside or offsets != sorted(set(offsets)):
        with pytest.raises(CorruptBatch, match="ascend" if is_inside else "outside"):
            decode_columns(broken, EVERYTHING, (), loops)
        return
    found = rows_in(decode_columns(broken, EVERYTHING, (), loops).batches)
    assert [row[:5] + row[6:] for row in found] == [
        row[:5] + row[6:] for row in rows_of(expected, EVERYTHING)
    ]


def transactional(producer_id: int, value: bytes, base_offset: int) -> bytearray:
    made = build_batch([NewRecord(None, value)], NOW_MS)
    made = with_header(
        made, producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )
    stamp(made, base_offset, 0)
    return made


def marker(producer_id: int, is_commit: bool, base_offset: int) -> bytearray:
    made = build_marker(producer_id, 0, Marker(is_commit, 0), NOW_MS)
    stamp(made, base_offset, 0)
    return made


@pytest.mark.parametrize("loops", LOOPS)
def test_aborted_transactions_and_markers_are_left_out(loops: Any) -> None:
    run = b"".join(
        (
            transactional(1, b"aborted", 0),
            transactional(2, b"kept", 1),
            marker(1, False, 2),
            transactional(1, b"second try", 3),
            marker(2, True, 4),
            marker(1, True, 5),
        )
    )
    found = decode_columns(run, EVERYTHING, [AbortedProducer(1, 0)], loops)
    assert [row[1] for row in rows_in(found.batches)] == [b"kept", b"second try"]
    assert found.next_offset == 6
    assert decode_columns(run[: len(run) - 1], EVERYTHING, (), loops).next_offset == 5


@pytest.mark.parametrize("loops", LOOPS)
def test_append_time_is_the_batchs(loops: Any) -> None:
    made = with_header(
        build_batch([NewRecord(None, b"a", timestamp_ms=5), NewRecord(None, b"b", timestamp_ms=7)], NOW_MS),
        attributes=LOG_APPEND_TIME,
        max_timestamp_ms=99,
    )
    (found,) = decode_columns(made, EVERYTHING, (), loops).batches
    assert found.column("timestamp").cast("int64").to_pylist() == [99_000, 99_000]
    assert found.column("timestampType").to_pylist() == [1, 1]


@pytest.mark.parametrize("loops", LOOPS)
def test_a_flipped_bit_is_found(loops: Any) -> None:
    made = build_batch([NewRecord(b"k", b"v")], NOW_MS)
    made[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        decode_columns(made, EVERYTHING, (), loops)
    stamp_checksum(made)
    assert decode_header(made).count == 1


@pytest.mark.parametrize("loops", LOOPS)
def test_times_beyond_arrow_become_the_last_one_it_has(loops: Any) -> None:
    made = build_batch([NewRecord(None, b"", timestamp_ms=2**62)], NOW_MS)
    (found,) = decode_columns(made, EVERYTHING, (), loops).batches
    assert found.column("timestamp").cast("int64")[0].as_py() == (2**63 - 1) // 1000 * 1000
