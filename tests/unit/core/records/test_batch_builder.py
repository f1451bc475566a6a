"""Rows of Arrow arrays become batches: what is unpacked again is what was packed, whatever the cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.raw.loops import compiled_loops
from penstock.core.codecs import CODEC_NAMES
from penstock.core.model import Header, Record
from penstock.core.records import batch_builder_loops
from penstock.core.records.batch import LOG_APPEND_TIME, check_produced, decode_header, stamp_append_time
from penstock.core.records.batch_builder import (
    BatchBuilder,
    ProducerIdentity,
    Rows,
    absent,
    blobs_of,
    header_blobs,
    resealed,
)
from penstock.core.records.build import open_batch
from penstock.core.records.murmur2 import murmur2, partition_of
from penstock.core.records.partition_router import PartitionRouter, grouped


def both_loops() -> list[Any]:
    """The plain loops, and the compiled ones where they were built."""
    found: list[Any] = [pytest.param(batch_builder_loops, id="interpreted")]
    compiled = compiled_loops("batch_builder")
    return found if compiled is None else [*found, pytest.param(compiled, id="compiled")]


pytestmark = pytest.mark.parametrize("loops", both_loops())

BY = ProducerIdentity(7, 3, is_transactional=True)
NAMED = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]

maybe_bytes = st.none() | st.binary(max_size=70)
headers = st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3)
rows_of = st.lists(
    st.tuples(maybe_bytes, maybe_bytes, headers, st.integers(0, 2**45)), min_size=1, max_size=30
)


def arrays(rows: list[Row], *, before: int = 0) -> Rows:
    """Columns of the rows; `before` rows stand in front of them in the same buffers."""
    padded: list[Row] = [(b"pad", b"pad", [], 0)] * before + rows
    keys = pa.array([row[0] for row in padded], pa.binary())[before:]
    values = pa.array([row[1] for row in padded], pa.binary())[before:]
    named = pa.array([[{"key": k, "value": v} for k, v in row[2]] for row in padded], NAMED)[before:]
    times = np.array([row[3] for row in rows], np.int64)
    return Rows(blobs_of(keys), blobs_of(values), header_blobs(named, len(rows)), times)


def packed(loops: Any, rows: Rows, order: Any, bytes_max: int, codec: int = 0) -> list[bytearray]:
    """All batches of these rows, each as large as it may be."""
    batches, builder, at, sequence = [], BatchBuilder(loops), 0, 0
    while at < len(order):
        end = builder.take(rows, order, at, bytes_max)
        if end < len(order):
            count = builder.count
            batches.append(builder.seal(BY, sequence, codec))
            sequence += count
        at = end
    batches.append(builder.seal(BY, sequence, codec))
    return batches


def opened(batches: list[bytearray]) -> list[Record]:
    records = []
    for batch in batches:
        header = check_produced(batch)
        assert header.max_timestamp_ms == max(one.timestamp_ms for one in open_batch(batch, header))
        records += open_batch(batch, header)
    return records


def expected(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(time, key, value, tuple(Header(*one) for one in named)) for key, value, named, time in rows]


@given(rows_of, st.integers(61, 400), st.sampled_from(sorted(CODEC_NAMES)), st.integers(0, 3))
def test_what_is_packed_is_unpacked(
    loops: Any, rows: list[Row], bytes_max: int, codec: int, before: int
) -> None:
    batches = packed(loops, arrays(rows, before=before), np.arange(len(rows)), bytes_max, codec)
    assert [one[1:] for one in opened(batches)] == expected(rows)
    headers = [decode_header(batch) for batch in batches]
    assert [one.base_sequence for one in headers] == list(
        np.cumsum([0] + [one.count for one in headers[:-1]])
    )
    assert {(one.producer_id, one.producer_epoch, one.is_transactional) for one in headers} == {(7, 3, True)}


@given(rows_of, st.randoms())
def test_rows_are_taken_in_the_order_asked_for(loops: Any, rows: list[Row], chance: Any) -> None:
    order = np.array(chance.sample(range(len(rows)), len(rows)))
    batches = packed(loops, arrays(rows), order, 1 << 20)
    assert [one[1:] for one in opened(batches)] == expected([rows[at] for at in order])


def test_a_batch_is_within_its_bytes_unless_one_record_is_larger(loops: Any) -> None:
    rows: list[Row] = [(None, bytes(40), [], 5)] * 9 + [(None, bytes(500), [], 5)]
    sizes = [len(batch) for batch in packed(loops, arrays(rows), np.arange(10), 200)]
    assert all(size <= 200 for size in sizes[:-1])
    assert sizes[-1] > 500


def test_batches_grow_over_several_arrays(loops: Any) -> None:
    builder = BatchBuilder(loops)
    for time in (1000, 2000, 500):
        rows = arrays([(b"k", b"v", [], time)] * 3)
        assert builder.take(rows, np.arange(3), 0, 1 << 20) == 3
    batch = builder.seal(BY, 0, 0)
    assert [one.timestamp_ms for one in opened([batch])] == [1000] * 3 + [2000] * 3 + [500] * 3
    assert builder.count == builder.payload_bytes == 0


def test_strings_and_large_columns_are_bytes_too(loops: Any) -> None:
    words = ["a", None, "ünd", ""]
    for kind in (pa.string(), pa.large_string()):
        blobs = blobs_of(pa.array(words, kind))
        rows = Rows(absent(4), blobs, header_blobs(None, 4), np.zeros(4, np.int64))
        found = opened(packed(loops, rows, np.arange(4), 1 << 20))
        assert [one.value for one in found] == [None if word is None else word.encode() for word in words]


def test_a_column_of_nulls_has_no_bytes(loops: Any) -> None:
    for array in (pa.nulls(3, pa.binary()), pa.array([None] * 3, pa.string()), pa.array([b"", b"", b""])[:3]):
        lengths = blobs_of(array).lengths.tolist()
        assert lengths == ([0, 0, 0] if array.null_count == 0 else [-1, -1, -1])


def test_a_resealed_batch_holds_the_same_records_in_another_name(loops: Any) -> None:
    rows: list[Row] = [(b"a", b"1", [("h", b"x")], 10), (None, None, [], 20)]
    (batch,) = packed(loops, arrays(rows), np.arange(2), 1 << 20, codec=4)
    stamp_append_time(batch, 99)
    again = resealed(batch, decode_header(batch), ProducerIdentity(8, 0, is_transactional=True), 40)
    header = check_produced(again)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset) == (
        8,
        0,
        40,
        0,
    )
    assert not header.attributes & LOG_APPEND_TIME
    assert [one[1:] for one in open_batch(again, header)] == expected(rows)


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_all_rows_are_hashed_as_each(loops: Any, keys: list[bytes]) -> None:
    blobs = blobs_of(pa.array([b"front", *keys], pa.binary())[1:])
    assert loops.hash_rows(blobs.data, blobs.starts, blobs.lengths).tolist() == [murmur2(key) for key in keys]


@given(st.lists(maybe_bytes, max_size=20), st.integers(1, 12))
def test_keys_decide_and_rows_without_one_stay_together(
    loops: Any, keys: list[bytes | None], partitions: int
) -> None:
    router = PartitionRouter(loops, partitions, 5)
    chosen = router.route(blobs_of(pa.array(keys, pa.binary())))
    sticky = 5 % partitions
    assert chosen.tolist() == [sticky if key is None else partition_of(key, partitions) for key in keys]
    router.turn()
    assert router.sticky == (sticky + 1) % partitions


def test_a_row_may_name_its_partition(loops: Any) -> None:
    router = PartitionRouter(loops, 4, 0)
    keys = blobs_of(pa.array([b"a", None, None], pa.binary()))
    assert router.route(keys, np.array([3, 2, -1])).tolist() == [3, 2, 0]
    assert router.is_there(3)
    assert not router.is_there(4)


@pytest.mark.parametrize("partitions", [[], [1], [2, 0, 2, 2, 1, 0]])
def test_rows_are_grouped_in_their_order(loops: Any, partitions: list[int]) -> None:
    groups = grouped(np.array(partitions, np.int64))
    assert [number for number, _ in groups] == sorted(set(partitions))
    for number, rows in groups:
        assert rows.tolist() == [at for at, one in enumerate(partitions) if one == number]
