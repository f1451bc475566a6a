"""Kafka's hash of keys and the partition it selects, given the number of partitions.

All Kafka clients that partition by key use this hash, so that equal keys go to the same partition whichever client
wrote them. The loops over many keys (`batch_builder_loops`, `batch_builder_compiled`) share its constants.
"""

from __future__ import annotations

from struct import Struct

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
_BITS32 = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_WORD_BYTES = 4
_WORD = Struct("<I")


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32-bit integer."""
    size = len(data)
    hashed = SEED ^ size
    whole = size - size % _WORD_BYTES
    for (word,) in _WORD.iter_unpack(data[:whole]):
        word = word * MULTIPLIER & _BITS32
        word = (word ^ word >> 24) * MULTIPLIER & _BITS32
        hashed = hashed * MULTIPLIER & _BITS32 ^ word
    if whole != size:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & _BITS32
    hashed = (hashed ^ hashed >> 13) * MULTIPLIER & _BITS32
    return hashed ^ hashed >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Kafka's default partitioner selects for a key."""
    return (murmur2(key) & _POSITIVE) % partitions
