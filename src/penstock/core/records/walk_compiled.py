"""The loops of `admission` and `lookup`, compiled by Cython in pure Python mode. Never raises for invalid bytes.

`walk_loops` has the same functions and must give the same results; it is used if this module was not built. Bytes are
read in place and without the GIL: a walk in a worker thread does not block the event loop.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from penstock.core.records.walk_findings import Checked, Spot

IS_COMPILED = cython.compiled

_FINE = cython.declare(cython.int, 0)
_STRUCTURE = cython.declare(cython.int, 1)
_OFFSET = cython.declare(cython.int, 2)
_TIME = cython.declare(cython.int, 3)
_TRAILING = cython.declare(cython.int, 4)
_KEYLESS = cython.declare(cython.int, -1)
_UNTIMELY = cython.declare(cython.int, -2)
_FOUND = cython.declare(cython.int, -3)

_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_NO_TIMESTAMP = cython.declare(cython.longlong, -1)

_BASE_MS_MAX = cython.declare(cython.longlong, 0x1FFFFFFFFFFFFFFF)
"""Sums of smaller timestamps do not overflow."""

Progress = cython.struct(
    position=cython.longlong,
    index=cython.longlong,
    max_ms=cython.longlong,
    offset_delta=cython.longlong,
    time_delta=cython.longlong,
)

Terms = cython.struct(
    base_ms=cython.longlong,
    oldest_ms=cython.longlong,
    newest_ms=cython.longlong,
    checks_times=cython.bint,
    needs_keys=cython.bint,
)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _varint(
    data: cython.p_const_uchar,
    position: cython.pointer[cython.longlong],
    end: cython.longlong,
    bytes_max: cython.int,
    out: cython.pointer[cython.longlong],
) -> cython.bint:
    """Read one signed varint and advance; false if it is invalid. Most take one or two bytes."""
    raw: cython.ulonglong = 0
    byte: cython.uchar
    number: cython.int
    at: cython.longlong = position[0]
    if at + 1 < end:
        raw = data[at]
        if raw < 0x80:
            position[0] = at + 1
            out[0] = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
            return True
        if data[at + 1] < 0x80:
            position[0] = at + 2
            raw = (raw & 0x7F) | (cython.cast(cython.ulonglong, data[at + 1]) << 7)
            out[0] = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
            return True
        raw = 0
    for number in range(bytes_max):
        if position[0] >= end:
            return False
        byte = data[position[0]]
        position[0] += 1
        if number == bytes_max - 1 and byte > (0x0F if bytes_max == 5 else 0x01):
            return False
        raw |= cython.cast(cython.ulonglong, byte & 0x7F) << (7 * number)
        if byte < 0x80:
            out[0] = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
            return True
    return False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _pass_blob(
    data: cython.p_const_uchar,
    position: cython.pointer[cython.longlong],
    end: cython.longlong,
    length_min: cython.longlong,
    length: cython.pointer[cython.longlong],
) -> cython.bint:
    """Skip length-prefixed bytes; false if they exceed the end."""
    if not _varint(data, position, end, 5, length) or length[0] < length_min:
        return False
    if length[0] > 0:
        if length[0] > end - position[0]:
            return False
        position[0] += length[0]
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_utf8(data: cython.p_const_uchar, position: cython.longlong, end: cython.longlong) -> cython.bint:
    """Whether these bytes are valid UTF-8; the second byte excludes overlong forms, surrogates and large values."""
    byte: cython.uchar
    low: cython.uchar
    high: cython.uchar
    more: cython.longlong
    while position < end:
        byte = data[position]
        if byte < 0x80:
            position += 1
            continue
        low = 0x80
        high = 0xBF
        if byte < 0xC2 or byte > 0xF4:
            return False
        if byte < 0xE0:
            more = 1
        elif byte < 0xF0:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        else:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        if end - position <= more or data[position + 1] < low or data[position + 1] > high:
            return False
        position += 2
        more -= 1
        while more > 0:
            if data[position] < 0x80 or data[position] > 0xBF:
                return False
            position += 1
            more -= 1
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _pass_headers(
    data: cython.p_const_uchar, position: cython.pointer[cython.longlong], end: cython.longlong
) -> cython.bint:
    """Skip the headers of a record; false unless they end where it ends."""
    count: cython.longlong = 0
    length: cython.longlong = 0
    if not _varint(data, position, end, 5, cython.address(count)):
        return False
    if count < 0 or count > (end - position[0]) // 2:
        return False
    while count > 0:
        count -= 1
        if not _pass_blob(data, position, end, 0, cython.address(length)):
            return False
        if not _is_utf8(data, position[0] - length, position[0]):
            return False
        if not _pass_blob(data, position, end, -1, cython.address(length)):
            return False
    return position[0] == end


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _can_add(base: cython.longlong, delta: cython.longlong) -> cython.bint:
    """Whether the sum fits into 64 bits."""
    if delta > 0:
        return base <= _INT64_MAX - delta
    return base >= -_INT64_MAX - 1 - delta


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check_one(
    data: cython.p_const_uchar,
    end: cython.longlong,
    at: cython.pointer[Progress],
    terms: cython.pointer[Terms],
) -> cython.int:
    """Check the record at `at` and advance. A negative result is a finding about a complete record."""
    position: cython.longlong = at.position
    length: cython.longlong = 0
    time_delta: cython.longlong = 0
    offset_delta: cython.longlong = 0
    key_length: cython.longlong = 0
    time_ms: cython.longlong
    record_end: cython.longlong
    if not _varint(data, cython.address(position), end, 5, cython.address(length)):
        return _STRUCTURE
    if length < 1 or length > end - position:
        return _STRUCTURE
    record_end = position + length
    # No attributes are defined, and some readers take a set high bit for a longer number.
    if data[position] != 0:
        return _STRUCTURE
    position += 1
    if not _varint(data, cython.address(position), record_end, 10, cython.address(time_delta)):
        return _STRUCTURE
    if not _varint(data, cython.address(position), record_end, 5, cython.address(offset_delta)):
        return _STRUCTURE
    if not _pass_blob(data, cython.address(position), record_end, -1, cython.address(key_length)):
        return _STRUCTURE
    if not _pass_blob(data, cython.address(position), record_end, -1, cython.address(length)):
        return _STRUCTURE
    if record_end - position == 1 and data[position] == 0:
        position += 1
    elif not _pass_headers(data, cython.address(position), record_end):
        return _STRUCTURE
    if offset_delta != at.index:
        return _OFFSET
    if not _can_add(terms.base_ms, time_delta):
        return _TIME
    time_ms = terms.base_ms + time_delta
    at.position = record_end
    at.index += 1
    if time_ms > at.max_ms:
        at.max_ms = time_ms
    if terms.needs_keys and key_length < 0:
        return _KEYLESS
    if not terms.checks_times or time_ms == _NO_TIMESTAMP:
        return _FINE
    return _FINE if terms.oldest_ms <= time_ms <= terms.newest_ms else _UNTIMELY


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _short(data: cython.p_const_uchar, position: cython.pointer[cython.longlong]) -> cython.ulonglong:
    """Read a varint of up to three bytes, undecoded, and advance. 0x200000 or more means that it is longer."""
    at: cython.longlong = position[0]
    raw: cython.ulonglong = data[at]
    if raw < 0x80:
        position[0] = at + 1
        return raw
    raw = (raw & 0x7F) | (cython.cast(cython.ulonglong, data[at + 1]) << 7)
    if raw < 0x4000:
        position[0] = at + 2
        return raw
    raw = (raw & 0x3FFF) | (cython.cast(cython.ulonglong, data[at + 2]) << 14)
    position[0] = at + 3
    return raw


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _end_of_simple(
    data: cython.p_const_uchar,
    here: cython.longlong,
    end: cython.longlong,
    index: cython.longlong,
    needs_keys: cython.bint,
    time_delta: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Where a simple record ends; -1 for any other. A simple one has short varints, no headers, and others follow it:
    its varints are read without bounds checks; that they lie in the record is checked when its last byte is reached."""
    too_long: cython.ulonglong = 0x200000
    margin: cython.longlong = 16  # more than the short varints of a record take in sequence
    raw: cython.ulonglong = 1
    if end - here > margin:
        raw = _short(data, cython.address(here))
    record_end: cython.longlong = here + cython.cast(cython.longlong, raw >> 1)
    if raw & 1 or raw >= too_long or end - record_end < margin or data[here] != 0:
        return -1
    here += 1
    raw = _short(data, cython.address(here))
    time_delta[0] = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
    if raw >= too_long or _short(data, cython.address(here)) != cython.cast(cython.ulonglong, index) << 1:
        return -1
    raw = _short(data, cython.address(here))
    if raw & 1:
        if raw != 1 or needs_keys:
            return -1
    else:
        here += cython.cast(cython.longlong, raw >> 1)
    if raw >= too_long or here >= record_end:
        return -1
    raw = _short(data, cython.address(here))
    if not raw & 1:
        here += cython.cast(cython.longlong, raw >> 1)
    elif raw != 1:
        return -1
    return record_end if raw < too_long and here == record_end - 1 and data[here] == 0 else -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _pass_simple(
    data: cython.p_const_uchar,
    end: cython.longlong,
    count: cython.longlong,
    at: cython.pointer[Progress],
    terms: cython.pointer[Terms],
) -> cython.void:
    """Skip valid simple records, up to the first that needs the full check."""
    position: cython.longlong = at.position
    index: cython.longlong = at.index
    record_end: cython.longlong
    delta: cython.longlong = 0
    latest: cython.longlong = -_BASE_MS_MAX
    earliest_min: cython.longlong = -_BASE_MS_MAX
    latest_max: cython.longlong = _BASE_MS_MAX
    needs_keys: cython.bint = terms.needs_keys
    if terms.base_ms > _BASE_MS_MAX or terms.base_ms < -_BASE_MS_MAX:
        return
    if terms.checks_times:
        earliest_min = max(terms.oldest_ms, -_BASE_MS_MAX) - terms.base_ms
        latest_max = min(terms.newest_ms, _BASE_MS_MAX) - terms.base_ms
    while index < count:
        record_end = _end_of_simple(data, position, end, index, needs_keys, cython.address(delta))
        if record_end < 0 or delta < earliest_min or delta > latest_max:
            break
        if delta > latest:
            latest = delta
        position = record_end
        index += 1
    if index > at.index and terms.base_ms + latest > at.max_ms:
        at.max_ms = terms.base_ms + latest
    at.position = position
    at.index = index


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check_more(
    data: cython.p_const_uchar,
    end: cython.longlong,
    count: cython.longlong,
    at: cython.pointer[Progress],
    terms: cython.pointer[Terms],
) -> cython.int:
    """Check records until one has a finding, or none are left."""
    status: cython.int
    while at.index < count:
        _pass_simple(data, end, count, at, terms)
        status = _FINE if at.index >= count else _check_one(data, end, at, terms)
        if status != 0:
            return status
    return _FINE if at.position == end else _TRAILING


def check_records(
    content,
    begin: cython.longlong,
    count: cython.longlong,
    base_ms: cython.longlong,
    oldest_ms: cython.longlong,
    newest_ms: cython.longlong,
    checks_times: cython.bint,
    needs_keys: cython.bint,
    indexes_max: cython.longlong,
):
    """Walk `count` records from `begin` to the end: dense offset deltas, lengths, headers, times, keys.

    At most `indexes_max` records that lack a key or have a time outside of the bounds are named.
    """
    buffer = cython.declare(Py_buffer)  # noqa: F821 - a type that Cython knows by itself
    at = cython.declare(Progress)
    terms = cython.declare(Terms)
    status: cython.int
    data: cython.p_const_uchar
    keyless: list = []
    untimely: list = []
    at.position = begin
    at.index = 0
    at.max_ms = _NO_TIMESTAMP
    terms.base_ms = base_ms
    terms.oldest_ms = oldest_ms
    terms.newest_ms = newest_ms
    terms.checks_times = checks_times and indexes_max > 0
    terms.needs_keys = needs_keys and indexes_max > 0
    PyObject_GetBuffer(content, cython.address(buffer), PyBUF_SIMPLE)
    try:
        data = cython.cast(cython.p_const_uchar, buffer.buf)
        while True:
            with cython.nogil:
                status = _check_more(data, buffer.len, count, cython.address(at), cython.address(terms))
            if status >= 0:
                break
            (keyless if status == _KEYLESS else untimely).append(at.index - 1)
            if len(keyless) + len(untimely) >= indexes_max:
                terms.needs_keys = terms.checks_times = False
    finally:
        PyBuffer_Release(cython.address(buffer))
    return Checked(status, at.index, at.max_ms, tuple(keyless), tuple(untimely))


def is_valid(
    content,
    begin: cython.longlong,
    count: cython.longlong,
    base_ms: cython.longlong,
    oldest_ms: cython.longlong,
    newest_ms: cython.longlong,
    needs_keys: cython.bint,
    max_ms: cython.longlong,
):
    """Whether `check_records` would find nothing and `max_ms` is the highest timestamp. For the most common batches."""
    buffer = cython.declare(Py_buffer)  # noqa: F821 - a type that Cython knows by itself
    at = cython.declare(Progress)
    terms = cython.declare(Terms)
    status: cython.int
    data: cython.p_const_uchar
    at.position = begin
    at.index = 0
    at.max_ms = _NO_TIMESTAMP
    terms.base_ms = base_ms
    terms.oldest_ms = oldest_ms
    terms.newest_ms = newest_ms
    terms.checks_times = True
    terms.needs_keys = needs_keys
    PyObject_GetBuffer(content, cython.address(buffer), PyBUF_SIMPLE)
    data = cython.cast(cython.p_const_uchar, buffer.buf)
    status = _check_more(data, buffer.len, count, cython.address(at), cython.address(terms))
    PyBuffer_Release(cython.address(buffer))
    return status == _FINE and at.max_ms == max_ms


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _seek_from(
    data: cython.p_const_uchar,
    end: cython.longlong,
    count: cython.longlong,
    offset_min: cython.longlong,
    time_min: cython.longlong,
    at: cython.pointer[Progress],
) -> cython.int:
    position: cython.longlong
    length: cython.longlong = 0
    while at.index < count:
        position = at.position
        if not _varint(data, cython.address(position), end, 5, cython.address(length)):
            return _STRUCTURE
        if length < 1 or length > end - position:
            return _STRUCTURE
        length += position
        position += 1
        if not _varint(data, cython.address(position), length, 10, cython.address(at.time_delta)):
            return _STRUCTURE
        if not _varint(data, cython.address(position), length, 5, cython.address(at.offset_delta)):
            return _STRUCTURE
        if at.offset_delta >= offset_min and at.time_delta >= time_min:
            return _FOUND
        at.position = length
        at.index += 1
    return _FINE


def seek(
    content,
    begin: cython.longlong,
    count: cython.longlong,
    offset_min: cython.longlong,
    time_min: cython.longlong,
):
    """The first of `count` records from `begin` on whose deltas are at least these. Reads nothing after it."""
    buffer = cython.declare(Py_buffer)  # noqa: F821 - a type that Cython knows by itself
    at = cython.declare(Progress)
    status: cython.int
    data: cython.p_const_uchar
    at.position = begin
    at.index = 0
    at.offset_delta = at.time_delta = 0
    PyObject_GetBuffer(content, cython.address(buffer), PyBUF_SIMPLE)
    try:
        data = cython.cast(cython.p_const_uchar, buffer.buf)
        with cython.nogil:
            status = _seek_from(data, buffer.len, count, offset_min, time_min, cython.address(at))
    finally:
        PyBuffer_Release(cython.address(buffer))
    return Spot(status == _FOUND, status == _STRUCTURE, at.index, at.position, at.offset_delta, at.time_delta)
