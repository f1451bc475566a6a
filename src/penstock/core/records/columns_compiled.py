"""The loops of `columns`, compiled by Cython in pure Python mode.

`columns_loops` has the same functions and must give the same results; it is used if this module was not built.
"""

from __future__ import annotations

import cython
import numpy as np
import pyarrow as pa
from cython.cimports.libc.string import memcpy

from penstock.core.errors import CorruptBatch

IS_COMPILED = cython.compiled


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _varint(
    data: cython.p_const_uchar,
    position: cython.pointer[cython.longlong],
    end: cython.longlong,
    bytes_max: cython.int,
    out: cython.pointer[cython.ulonglong],
) -> cython.bint:
    """Read one varint, not zigzag-decoded, and advance; false if it is invalid."""
    raw: cython.ulonglong = 0
    byte: cython.uchar
    number: cython.int
    for number in range(bytes_max):
        if position[0] >= end:
            return False
        byte = data[position[0]]
        position[0] += 1
        if number == bytes_max - 1 and byte > (0x0F if bytes_max == 5 else 0x01):
            return False
        raw |= cython.cast(cython.ulonglong, byte & 0x7F) << (7 * number)
        if byte < 0x80:
            out[0] = raw
            return True
    return False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _signed(raw: cython.ulonglong) -> cython.longlong:
    return cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)


@cython.cfunc
@cython.exceptval(check=False)
@cython.boundscheck(False)
@cython.wraparound(False)
@cython.nogil
def _walk_one(
    data: cython.p_const_uchar,
    begin: cython.longlong,
    end: cython.longlong,
    spans: cython.longlong[:, ::1],
    row: cython.longlong,
) -> cython.longlong:
    """One record; returns the next position, or -1."""
    position: cython.longlong = begin
    raw: cython.ulonglong = 0
    record_end: cython.longlong
    length: cython.longlong
    if not _varint(data, cython.address(position), end, 5, cython.address(raw)) or raw & 1:
        return -1
    record_end = position + cython.cast(cython.longlong, raw >> 1)
    if record_end > end:
        return -1
    position += 1
    if not _varint(data, cython.address(position), end, 10, cython.address(raw)):
        return -1
    spans[1, row] = _signed(raw)
    if not _varint(data, cython.address(position), end, 5, cython.address(raw)) or raw & 1:
        return -1
    spans[0, row] = cython.cast(cython.longlong, raw >> 1)
    if not _varint(data, cython.address(position), end, 5, cython.address(raw)):
        return -1
    length = _signed(raw)
    if length < -1:
        return -1
    spans[2, row] = position
    spans[3, row] = length
    position += length if length > 0 else 0
    if position >= record_end or not _varint(data, cython.address(position), end, 5, cython.address(raw)):
        return -1
    length = _signed(raw)
    if length < -1:
        return -1
    spans[4, row] = position
    spans[5, row] = length
    position += length if length > 0 else 0
    if position >= record_end:
        return -1
    spans[6, row] = position
    spans[7, row] = record_end
    return record_end


def walk(
    data: bytes,
    begin: cython.longlong,
    end: cython.longlong,
    count: cython.longlong,
    spans: cython.longlong[:, ::1],
    row: cython.longlong,
) -> None:
    """Write the positions of the parts of `count` records in data[begin:end] to `spans`, from column `row` on.

    The rows of `spans`: offset delta, timestamp delta, start and length of the key, of the value (a length of -1
    is null), start and end of the headers. Raises CorruptBatch.
    """
    content: cython.p_const_uchar = cython.cast(cython.p_const_uchar, cython.cast(cython.p_const_char, data))
    position: cython.longlong = begin
    number: cython.longlong
    if end > len(data) or begin < 0 or row < 0 or row + count > spans.shape[1] or spans.shape[0] != 8:
        raise AssertionError("`spans` is too small for the records")
    for number in range(count):
        begin = position
        position = _walk_one(content, begin, end, spans, row + number)
        if position < 0:
            raise CorruptBatch(f"record {number} at {begin} has an invalid length or offset")
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the last of {count} records")


@cython.boundscheck(False)
@cython.wraparound(False)
def walk_headers(data: bytes, starts: cython.longlong[::1], ends: cython.longlong[::1]):
    """The number of headers of each record, and start and length of each name and value."""
    content: cython.p_const_uchar = cython.cast(cython.p_const_uchar, cython.cast(cython.p_const_char, data))
    rows: cython.longlong = starts.shape[0]
    made = np.empty(rows, np.int64)
    counts: cython.longlong[::1] = made
    row: cython.longlong
    total: cython.longlong = 0
    position: cython.longlong
    raw: cython.ulonglong = 0
    for row in range(rows):
        position = starts[row]
        if not _varint(content, cython.address(position), ends[row], 5, cython.address(raw)):
            raise CorruptBatch("the bytes end inside a header")
        counts[row] = _signed(raw)
        if counts[row] < 0 or counts[row] * 2 > ends[row] - position:
            raise CorruptBatch("a record claims more headers than its bytes can contain")
        total += counts[row]
    found = np.empty((4, total), np.int64)
    parts: cython.longlong[:, ::1] = found
    slot: cython.longlong = 0
    end_slot: cython.longlong
    for row in range(rows):
        position = starts[row]
        end_slot = slot + counts[row]
        _varint(content, cython.address(position), ends[row], 5, cython.address(raw))
        while slot < end_slot:
            position = _header(content, position, ends[row], parts, slot)
            if position < 0:
                raise CorruptBatch("a header has an invalid length")
            slot += 1
        if position != ends[row]:
            raise CorruptBatch("the headers of a record do not end where its length says")
    return made, found


@cython.cfunc
@cython.exceptval(check=False)
@cython.boundscheck(False)
@cython.wraparound(False)
@cython.nogil
def _header(
    data: cython.p_const_uchar,
    position: cython.longlong,
    end: cython.longlong,
    parts: cython.longlong[:, ::1],
    slot: cython.longlong,
) -> cython.longlong:
    """One header; returns the next position, or -1."""
    raw: cython.ulonglong = 0
    name: cython.int
    length: cython.longlong
    for name in range(0, 4, 2):
        if not _varint(data, cython.address(position), end, 5, cython.address(raw)):
            return -1
        length = _signed(raw)
        if length < (-1 if name else 0):
            return -1
        parts[name, slot] = position
        parts[name + 1, slot] = length
        position += length if length > 0 else 0
        if position > end:
            return -1
    return position


@cython.boundscheck(False)
@cython.wraparound(False)
def gather(data: bytes, starts: cython.longlong[::1], lengths: cython.longlong[::1]):
    """A binary array of these slices of the data; a length of -1 is null."""
    content: cython.p_const_uchar = cython.cast(cython.p_const_uchar, cython.cast(cython.p_const_char, data))
    count: cython.longlong = starts.shape[0]
    size: cython.longlong = len(data)
    row: cython.longlong
    total: cython.longlong = 0
    nulls: cython.longlong = 0
    for row in range(count):
        if lengths[row] < 0:
            nulls += 1
        elif starts[row] < 0 or starts[row] + lengths[row] > size:
            raise AssertionError("a slice is outside the data")
        else:
            total += lengths[row]
    bounds = np.zeros(count + 1, np.int32)
    copied = np.empty(max(total, 1), np.uint8)
    valid = np.zeros(count // 8 + 1 if nulls else 1, np.uint8)
    ends: cython.int[::1] = bounds
    out: cython.uchar[::1] = copied
    bits: cython.uchar[::1] = valid
    at: cython.longlong = 0
    for row in range(count):
        if lengths[row] > 0:
            memcpy(cython.address(out[at]), content + starts[row], lengths[row])
            at += lengths[row]
        ends[row + 1] = at
        if nulls and lengths[row] >= 0:
            bits[row >> 3] |= 1 << (row & 7)
    buffers = [pa.py_buffer(valid) if nulls else None, pa.py_buffer(bounds), pa.py_buffer(copied)]
    return pa.BinaryArray.from_buffers(pa.binary(), count, buffers, nulls)
