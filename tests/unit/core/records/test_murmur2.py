"""Kafka's hash of keys: the numbers of Kafka's own test, and another client's hash for all keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_pythons

from penstock.core.records.murmur2 import murmur2, partition_of

KAFKAS_OWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KAFKAS_OWN, ids=bytes.decode)
def test_the_numbers_are_kafkas(key: bytes) -> None:
    assert murmur2(key) == KAFKAS_OWN[key] % 2**32


@given(st.binary(max_size=40))
def test_another_client_agrees(key: bytes) -> None:
    assert murmur2(key) == kafka_pythons(key) % 2**32


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_every_key_has_one_of_the_partitions(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions
