"""Zigzag varints, as in records. Never reads past the given width or the end of the bytes."""

from __future__ import annotations

from penstock.core.errors import CorruptBatch

INT32_BYTES_MAX = 5
INT64_BYTES_MAX = 10


def encode(value: int) -> bytes:
    """The shortest varint of a signed 64-bit integer."""
    assert -(2**63) <= value < 2**63, value
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _SINGLE[rest]
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode(data: bytes, position: int, bytes_max: int = INT32_BYTES_MAX) -> tuple[int, int]:
    """The signed integer at `position` and the next position."""
    start = position
    try:
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = decode_rest(data, position, raw, bytes_max)
    except IndexError:
        raise CorruptBatch(f"the varint at {start} is truncated") from None
    return (raw >> 1) ^ -(raw & 1), position


def decode_rest(data: bytes, position: int, raw: int, bytes_max: int = INT32_BYTES_MAX) -> tuple[int, int]:
    """Continue after a first byte, `raw`, with the continuation bit set. The result is not zigzag-decoded.

    Raises IndexError if the bytes end early; callers that walk many varints translate it once.
    """
    byte = data[position]
    if byte < 0x80:
        return raw - 0x80 + (byte << 7), position + 1
    raw &= 0x7F
    start, shift = position - 1, 7
    while byte > 0x7F:
        raw |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if position - start == bytes_max:
            raise CorruptBatch(f"the varint at {start} does not end within {bytes_max} bytes")
        byte = data[position]
    raw |= byte << shift
    bits = 32 if bytes_max == INT32_BYTES_MAX else 64
    if raw >> bits:
        raise CorruptBatch(f"the varint at {start} needs more than {bits} bits")
    return raw, position + 1


_SINGLE = [bytes((value,)) for value in range(0x80)]
