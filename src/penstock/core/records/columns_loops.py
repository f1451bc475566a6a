"""The loops of `columns` without a compiler: Python finds the records, numpy and Arrow process them in bulk.

`columns_compiled` has the same functions and must give the same results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import CorruptBatch
from penstock.core.records.varint import INT32_BYTES_MAX, INT64_BYTES_MAX, decode_rest

_LAST_BYTE_MAX = {INT32_BYTES_MAX: 0x0F, INT64_BYTES_MAX: 0x01}


def walk(data: bytes, begin: int, end: int, count: int, spans: Any, row: int) -> None:
    """Write the positions of the parts of `count` records in data[begin:end] to `spans`, from column `row` on.

    The rows of `spans`: offset delta, timestamp delta, start and length of the key, of the value (a length of -1
    is null), start and end of the headers. Raises CorruptBatch.
    """
    if not count:
        if begin != end:
            raise CorruptBatch(f"{end - begin} bytes follow the last of 0 records")
        return
    octets = np.frombuffer(data, np.uint8, end)
    try:
        starts, ends = _find_records(data, begin, end, count)
        times, at = _varints(octets, starts + 1, INT64_BYTES_MAX)
        offsets, at = _varints(octets, at)
        keys, at = _varints(octets, at)
        key_at = at
        values, value_at = _varints(octets, at + (keys >> np.uint64(1)).astype(np.int64))
    except IndexError:
        raise CorruptBatch(f"the bytes end inside one of {count} records") from None
    key_lengths, value_lengths = _signed(keys), _signed(values)
    headers_at = value_at + np.maximum(value_lengths, 0)
    wrong = (headers_at >= ends) | (offsets & np.uint64(1) > 0) | (key_lengths < -1) | (value_lengths < -1)
    if wrong.any():
        raise CorruptBatch(f"the record at {starts[wrong.argmax()]} has an invalid length or offset")
    columns = (
        _signed(offsets),
        _signed(times),
        key_at,
        key_lengths,
        value_at,
        value_lengths,
        headers_at,
        ends,
    )
    for number, column in enumerate(columns):
        spans[number, row : row + count] = column


def walk_headers(data: bytes, starts: Any, ends: Any) -> tuple[Any, Any]:
    """The number of headers of each record, and start and length of each name and value."""
    octets = np.frombuffer(data, np.uint8)
    bounds = np.append(ends, 0)
    try:
        counts, at = _varints(octets, starts)
        counts = _signed(counts)
        if ((counts < 0) | (counts * 2 > ends - at)).any():
            raise CorruptBatch("a record claims more headers than its bytes can contain")
        total = int(counts.sum())
        parts = np.empty((4, total), np.int64)
        firsts = np.cumsum(counts) - counts
        rest = np.flatnonzero(counts)
        done = 0
        while len(rest):
            slots = firsts[rest] + done
            for name in (0, 2):
                lengths, at[rest] = _varints(octets, at[rest])
                parts[name, slots], parts[name + 1, slots] = at[rest], _signed(lengths)
                at[rest] += np.maximum(parts[name + 1, slots], 0)
                if (at[rest] > bounds[rest]).any() or (parts[name + 1, slots] < (name // 2) * -1).any():
                    raise CorruptBatch("a header has an invalid length")
            done += 1
            rest = rest[counts[rest] > done]
    except IndexError:
        raise CorruptBatch("the bytes end inside a header") from None
    if (at != ends).any():
        raise CorruptBatch("the headers of a record do not end where its length says")
    return counts, parts


def gather(data: bytes, starts: Any, lengths: Any) -> Any:
    """A binary array of these slices of the data; a length of -1 is null.

    The slices are ordered, so with the gaps between them they form one array: every second element is taken.
    """
    kept = np.maximum(lengths, 0)
    slots = np.zeros(2 * len(starts) + 1, np.int32)
    slots[1::2] = starts
    slots[2::2] = starts + kept
    whole = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * len(starts), [None, pa.py_buffer(slots), pa.py_buffer(data)]
    )
    chosen = pa.array(np.arange(1, 2 * len(starts), 2), mask=lengths < 0 if (lengths < 0).any() else None)
    return whole.take(chosen)


def _find_records(data: bytes, begin: int, end: int, count: int) -> tuple[Any, Any]:
    """Start (after the length) and end of each record."""
    starts: list[int] = []
    ends: list[int] = []
    position = begin
    for _ in range(count):
        raw = data[position]
        position += 1
        if raw > 0x7F:
            if (byte := data[position]) < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = decode_rest(data, position, raw)
        starts.append(position)
        position += raw >> 1
        if raw & 1 or position > end:
            raise CorruptBatch(
                f"the record at {starts[-1]} does not end within the {end - begin} bytes of its batch"
            )
        ends.append(position)
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the last of {count} records")
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _varints(octets: Any, at: Any, bytes_max: int = INT32_BYTES_MAX) -> tuple[Any, Any]:
    """The varints at these positions, not zigzag-decoded, and the next positions."""
    byte = octets[at]
    raw = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(byte > 0x7F)
    for number in range(1, bytes_max):
        if not len(more):
            return raw, after
        byte = octets[after[more]]
        if number == bytes_max - 1 and (byte > _LAST_BYTE_MAX[bytes_max]).any():
            break
        raw[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        after[more] += 1
        more = more[byte > 0x7F]
    if len(more):
        raise CorruptBatch(
            f"the varint at {at[more[0]]} does not end within {bytes_max} bytes or is too large"
        )
    return raw, after


def _signed(raw: Any) -> Any:
    return (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
