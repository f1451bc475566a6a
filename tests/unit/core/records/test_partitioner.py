"""The partition of a key is the one that Kafka's own clients choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as their_murmur2

from penstock.core.records.partitioner import murmur2, partition_of


@given(st.binary(max_size=200))
def test_the_hash_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == their_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize("count", [1, 3, 12, 10_000])
def test_every_partition_is_one_of_those_there_are(count: int) -> None:
    chosen = {partition_of(b"%d" % number, count) for number in range(500)}
    assert all(0 <= one < count for one in chosen)
    assert len(chosen) > min(count, 100) // 2
