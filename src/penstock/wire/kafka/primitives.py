"""What generated code calls for the rare cases: long varints, tagged fields nobody knows, and the words of a refusal. No I/O."""

from __future__ import annotations

from penstock.core.errors import Malformed

VARINT_BYTES_MAX = 5


def read_varint(buf: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint of 32 bits, and the position after it."""
    first = buf[pos]
    if first < 128:
        return first, pos + 1
    return finish_varint(buf, pos + 1, first)


def finish_varint(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, read already, says that more follow."""
    value = first & 127
    shift = 7
    for position in range(pos, pos + VARINT_BYTES_MAX - 1):
        byte = buf[position]
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 32:
                break
            return value, position + 1
        shift += 7
    raise Malformed(f"varint of more than 32 bits at byte {pos - 1}")


def write_varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


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
    """A length or count that does not fit in what is left of the frame."""
    return Malformed(f"{what}: a length of {count} at byte {pos} does not fit in the frame")


def unexpected_null(what: str, pos: int) -> Malformed:
    """A null, or another negative length, where none is allowed."""
    return Malformed(f"{what}: null or negative length before byte {pos}")


def too_many(what: str, pos: int) -> Malformed:
    """More array elements or tagged fields in one message than the limit."""
    return Malformed(f"{what}: too many elements in one message, at byte {pos}")
