"""The loops of `batch_builder`, compiled by Cython in pure Python mode.

`batch_builder_loops` has the same functions and must give the same results; it is used if this module was not built.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.string import memcpy

from penstock.core.records.murmur2 import MULTIPLIER, SEED

IS_COMPILED = cython.compiled


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _folded(value: cython.longlong) -> cython.ulonglong:
    """Zigzag encoding."""
    return (cython.cast(cython.ulonglong, value) << 1) ^ cython.cast(cython.ulonglong, value >> 63)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _size(value: cython.longlong) -> cython.longlong:
    """The size of a varint."""
    rest: cython.ulonglong = _folded(value) >> 7
    count: cython.longlong = 1
    while rest:
        rest >>= 7
        count += 1
    return count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _put(out: cython.p_uchar, value: cython.longlong) -> cython.p_uchar:
    """Write a varint; returns the next position."""
    rest: cython.ulonglong = _folded(value)
    while rest > 0x7F:
        out[0] = cython.cast(cython.uchar, (rest & 0x7F) | 0x80)
        out += 1
        rest >>= 7
    out[0] = cython.cast(cython.uchar, rest)
    return out + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _put_blob(
    out: cython.p_uchar, data: cython.p_const_uchar, start: cython.longlong, length: cython.longlong
) -> cython.p_uchar:
    """Write length-prefixed bytes, or null; returns the next position."""
    out = _put(out, length)
    if length > 0:
        memcpy(out, data + start, length)
        out += length
    return out


def encode_rows(
    rows,
    order: cython.longlong[::1],
    begin: cython.longlong,
    first_delta: cython.longlong,
    base_ms: cython.longlong,
    room: cython.longlong,
    takes_one: cython.bint,
):
    """Rows `order[begin:]` encoded as records while they fit into `room` bytes; with `takes_one` at least one.

    Returns the bytes and the next index in `order`.
    """
    bodies = np.empty(order.shape[0] - begin, np.int64)
    count: cython.longlong = _measure(rows, order[begin:], first_delta, base_ms, room, takes_one, bodies)
    chosen: cython.longlong[::1] = order[begin : begin + count]
    return _fill(rows, chosen, first_delta, base_ms, bodies[:count]), begin + count


@cython.cfunc
@cython.boundscheck(False)
@cython.wraparound(False)
def _measure(
    rows,
    order: cython.longlong[::1],
    first_delta: cython.longlong,
    base_ms: cython.longlong,
    room: cython.longlong,
    takes_one: cython.bint,
    bodies: cython.longlong[::1],
) -> cython.longlong:
    """How many of the rows fit; writes the size of each record, without its length prefix, to `bodies`."""
    keys: cython.longlong[::1] = rows.keys.lengths
    values: cython.longlong[::1] = rows.values.lengths
    headers: cython.longlong[::1] = rows.headers.lengths
    times: cython.longlong[::1] = rows.times_ms
    at: cython.longlong = 0
    row: cython.longlong
    size: cython.longlong
    while at < order.shape[0]:
        row = order[at]
        size = 1 + _size(times[row] - base_ms) + _size(first_delta + at) + headers[row]
        size += _size(keys[row]) + max(keys[row], 0) + _size(values[row]) + max(values[row], 0)
        bodies[at] = size
        room -= size + _size(size)
        if room < 0 and not (takes_one and at == 0):
            break
        at += 1
    return at


@cython.cfunc
@cython.boundscheck(False)
@cython.wraparound(False)
def _fill(
    rows,
    order: cython.longlong[::1],
    first_delta: cython.longlong,
    base_ms: cython.longlong,
    bodies: cython.longlong[::1],
):
    """Encode records of these sizes."""
    key_data: cython.const[cython.uchar][::1] = rows.keys.data
    value_data: cython.const[cython.uchar][::1] = rows.values.data
    header_data: cython.const[cython.uchar][::1] = rows.headers.data
    key_starts: cython.longlong[::1] = rows.keys.starts
    key_lengths: cython.longlong[::1] = rows.keys.lengths
    value_starts: cython.longlong[::1] = rows.values.starts
    value_lengths: cython.longlong[::1] = rows.values.lengths
    header_starts: cython.longlong[::1] = rows.headers.starts
    header_lengths: cython.longlong[::1] = rows.headers.lengths
    times: cython.longlong[::1] = rows.times_ms
    total: cython.longlong = 0
    number: cython.longlong
    row: cython.longlong
    for number in range(order.shape[0]):
        total += bodies[number] + _size(bodies[number])
    result = PyBytes_FromStringAndSize(cython.NULL, total)
    out: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(result))
    for number in range(order.shape[0]):
        row = order[number]
        out = _put(out, bodies[number])
        out[0] = 0
        out = _put(out + 1, times[row] - base_ms)
        out = _put(out, first_delta + number)
        out = _put_blob(out, cython.address(key_data[0]), key_starts[row], key_lengths[row])
        out = _put_blob(out, cython.address(value_data[0]), value_starts[row], value_lengths[row])
        memcpy(out, cython.address(header_data[header_starts[row]]), header_lengths[row])
        out += header_lengths[row]
    return result


@cython.boundscheck(False)
@cython.wraparound(False)
@cython.cdivision(True)
def hash_rows(
    data: cython.const[cython.uchar][::1], starts: cython.longlong[::1], lengths: cython.longlong[::1]
):
    """Kafka's hash of each row, unsigned."""
    count: cython.longlong = starts.shape[0]
    made = np.empty(count, np.uint32)
    hashes: cython.uint[::1] = made
    row: cython.longlong
    at: cython.longlong
    end: cython.longlong
    mixed: cython.uint
    hashed: cython.uint
    seed: cython.uint = SEED
    multiplier: cython.uint = MULTIPLIER
    for row in range(count):
        at = starts[row]
        end = at + lengths[row]
        hashed = seed ^ cython.cast(cython.uint, lengths[row])
        while end - at >= 4:
            mixed = (
                data[at]
                | cython.cast(cython.uint, data[at + 1]) << 8
                | cython.cast(cython.uint, data[at + 2]) << 16
                | cython.cast(cython.uint, data[at + 3]) << 24
            ) * multiplier
            mixed = (mixed ^ mixed >> 24) * multiplier
            hashed = (hashed * multiplier) ^ mixed
            at += 4
        if end > at:
            mixed = 0
            while end > at:
                end -= 1
                mixed = mixed << 8 | data[end]
            hashed = (hashed ^ mixed) * multiplier
        hashed = (hashed ^ hashed >> 13) * multiplier
        hashes[row] = hashed ^ hashed >> 15
    return made
