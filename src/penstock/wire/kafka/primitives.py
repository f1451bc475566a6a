"""Helpers that generated code calls in rare cases: long varints, unknown tagged fields, errors. No I/O."""

from __future__ import annotations

from penstock.core.errors import Malformed


def read_varint(buf: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned 32-bit varint, and the next position."""
    first = buf[pos]
    if first < 128:
        return first, pos + 1
    return finish_varint(buf, pos + 1, first)


def finish_varint(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint after a first byte with the continuation bit set. At most five bytes in total."""
    byte = buf[pos]
    if byte < 128:
        return first & 127 | byte << 7, pos + 1
    value = first & 127 | (byte & 127) << 7
    byte = buf[pos + 1]
    if byte < 128:
        return value | byte << 14, pos + 2
    value |= (byte & 127) << 14
    byte = buf[pos + 2]
    if byte < 128:
        return value | byte << 21, pos + 3
    value |= (byte & 127) << 21
    byte = buf[pos + 3]
    if byte < 16:
        return value | byte << 28, pos + 4
    raise Malformed(f"varint of more than 32 bits at byte {pos - 1}")


def write_varint(value: int) -> bytes:
    """An unsigned varint of 32 bits."""
    if value < 128:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    low = (value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128)
    if value < 1 << 28:
        return bytes((*low, value >> 21))
    return bytes((*low, value >> 21 & 127 | 128, value >> 28))


def skip_tags(buf: memoryview, pos: int, count: int) -> int:
    """The position after `count` tagged fields that this version does not know."""
    end = len(buf)
    for _ in range(count):
        _, pos = read_varint(buf, pos)
        size, pos = read_varint(buf, pos)
        pos += size
        if pos > end:
            raise overrun("tagged field", size, pos - size)
    return pos


def overrun(what: str, count: int, pos: int) -> Malformed:
    """The error for a length or count that exceeds the rest of the frame."""
    return Malformed(f"{what}: a length of {count} at byte {pos} does not fit in the frame")


def unexpected_null(what: str, pos: int) -> Malformed:
    """The error for a null or negative length where none is allowed."""
    return Malformed(f"{what}: null or negative length before byte {pos}")


def too_many(what: str, pos: int, limit: int) -> Malformed:
    """The error for more array elements or tagged fields in one message than the limit."""
    return Malformed(f"{what}: more than {limit} elements in one message, at byte {pos}")
