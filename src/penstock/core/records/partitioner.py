"""Which partition a key belongs to, as Kafka's own clients reckon it. Never looks at a record without a key."""

from __future__ import annotations

from struct import unpack_from

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """Kafka's hash of a key: murmur2 of 32 bits."""
    length = len(key)
    words = length >> 2
    value = _SEED ^ length
    for word in unpack_from(f"<{words}I", key):
        word = word * _M & _MASK
        word ^= word >> 24
        value = (value * _M & _MASK) ^ (word * _M & _MASK)
    tail = key[words << 2 :]
    if tail:
        value ^= int.from_bytes(tail, "little")
        value = value * _M & _MASK
    value ^= value >> 13
    value = value * _M & _MASK
    return value ^ (value >> 15)


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition of a key; the same for every client that knows Kafka's default."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
