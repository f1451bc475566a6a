"""Keys and values of the metadata log in etcd."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import TornSegment
from penstock.node.cluster.etcd_layout import (
    CHUNK_ID_BYTES,
    CHUNKS_MAX,
    START,
    Keys,
    LogPosition,
    Stored,
    decode_head,
    decode_stored,
    encode_head,
    encode_stored,
)

INDEXES = st.integers(0, 2**63)
POSITIONS = st.builds(LogPosition, INDEXES, st.binary(min_size=8, max_size=8))
STORED = st.builds(Stored, POSITIONS, st.binary(), st.just(0), st.just(b"")) | st.builds(
    Stored,
    POSITIONS,
    st.just(b""),
    st.integers(1, CHUNKS_MAX),
    st.binary(min_size=CHUNK_ID_BYTES, max_size=CHUNK_ID_BYTES),
)


@given(POSITIONS)
def test_the_head_comes_back(position: LogPosition) -> None:
    assert decode_head(encode_head(position)) == position


@given(STORED)
def test_values_come_back(stored: Stored) -> None:
    assert decode_stored(b"k", encode_stored(stored)) == stored


@given(st.binary())
def test_other_bytes_are_refused_or_read(value: bytes) -> None:
    for decode in (decode_head, lambda raw: decode_stored(b"k", raw)):
        try:
            decode(value)
        except TornSegment as error:
            assert "cannot read" in str(error) or "chunks" in str(error)


@given(INDEXES, INDEXES)
def test_keys_sort_as_indexes_do(one: int, other: int) -> None:
    keys = Keys("x")
    assert (keys.entry(one) < keys.entry(other)) == (one < other)
    assert keys.log_start <= keys.entry(one) < keys.log_end


def test_families_of_keys_do_not_overlap() -> None:
    keys = Keys("a/b")
    chunk = keys.chunk(bytes(CHUNK_ID_BYTES), 5)
    start, end = keys.chunk_range(bytes(CHUNK_ID_BYTES))
    assert start <= chunk < end
    assert keys.chunk_ids([chunk]) == {bytes(CHUNK_ID_BYTES)}
    assert keys.session_name(keys.session("broker-3")) == "broker-3"
    ranges = [
        (keys.chunks_start, keys.chunks_end),
        (keys.log_start, keys.log_end),
        (keys.sessions_start, keys.sessions_end),
    ]
    assert all(left[1] <= right[0] for left, right in pairwise(ranges))
    assert not any(
        low <= key < high for low, high in ranges for key in (keys.cluster, keys.head, keys.snapshot)
    )
    assert all(edge.startswith(b"a/b/") for pair in ranges for edge in pair)


def test_the_digest_tells_histories_apart() -> None:
    one = START.after(b"a", 1).after(b"b", 1)
    other = START.after(b"c", 1).after(b"b", 1)
    assert one.index == other.index == 2
    assert one != other
    assert one == START.after(b"a", 1).after(b"b", 1)


def test_a_later_format_is_refused() -> None:
    value = encode_stored(Stored(START, b"x"))
    with pytest.raises(TornSegment, match="cannot read"):
        decode_stored(b"log/0", bytes([value[0] + 1]) + value[1:])
