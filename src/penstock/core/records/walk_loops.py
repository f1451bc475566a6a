"""The loops of `admission` and `lookup` in pure Python. Never raises for invalid bytes.

`walk_compiled` has the same functions and must give the same results.
"""

from __future__ import annotations

from penstock.core.errors import CorruptBatch
from penstock.core.model import NO_TIMESTAMP
from penstock.core.records.batch import Buffer
from penstock.core.records.varint import INT64_BYTES_MAX, decode
from penstock.core.records.walk_findings import FINE, OFFSET, STRUCTURE, TIME, TRAILING, Checked, Spot

_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)


def check_records(
    content: Buffer,
    begin: int,
    count: int,
    base_ms: int,
    oldest_ms: int,
    newest_ms: int,
    checks_times: bool,
    needs_keys: bool,
    indexes_max: int,
) -> Checked:
    """Walk `count` records from `begin` to the end: dense offset deltas, lengths, headers, times, keys.

    At most `indexes_max` records that lack a key or have a time outside of the bounds are named.
    """
    data = bytes(content)
    position, max_ms = begin, NO_TIMESTAMP
    keyless: list[int] = []
    untimely: list[int] = []

    def checked(status: int, index: int) -> Checked:
        return Checked(status, index, max_ms, tuple(keyless), tuple(untimely))

    for index in range(count):
        try:
            position, time_delta, offset_delta, has_key = _pass_record(data, position)
        except CorruptBatch:
            return checked(STRUCTURE, index)
        if offset_delta != index:
            return checked(OFFSET, index)
        time_ms = base_ms + time_delta
        if not _INT64_MIN <= time_ms <= _INT64_MAX:
            return checked(TIME, index)
        max_ms = max(max_ms, time_ms)
        if len(keyless) + len(untimely) >= indexes_max:
            continue
        if needs_keys and not has_key:
            keyless.append(index)
        elif checks_times and time_ms != NO_TIMESTAMP and not oldest_ms <= time_ms <= newest_ms:
            untimely.append(index)
    return checked(FINE if position == len(data) else TRAILING, max(count, 0))


def is_valid(
    content: Buffer,
    begin: int,
    count: int,
    base_ms: int,
    oldest_ms: int,
    newest_ms: int,
    needs_keys: bool,
    max_ms: int,
) -> bool:
    """Whether `check_records` would find nothing and `max_ms` is the highest timestamp. For the most common batches."""
    checked = check_records(content, begin, count, base_ms, oldest_ms, newest_ms, True, needs_keys, 1)
    return checked[0] == FINE and checked[2:] == (max_ms, (), ())


def seek(content: Buffer, begin: int, count: int, offset_min: int, time_min: int) -> Spot:
    """The first of `count` records from `begin` on whose deltas are at least these. Reads nothing after it."""
    data = bytes(content)
    position = begin
    offset_delta = time_delta = 0
    for index in range(count):
        try:
            at, end = _record_bounds(data, position)
            time_delta, at = _number(data, at + 1, end, INT64_BYTES_MAX)
            offset_delta, at = _number(data, at, end)
        except CorruptBatch:
            return Spot(False, True, index, position, offset_delta, time_delta)
        if offset_delta >= offset_min and time_delta >= time_min:
            return Spot(True, False, index, position, offset_delta, time_delta)
        position = end
    return Spot(False, False, max(count, 0), position, offset_delta, time_delta)


def _pass_record(data: bytes, position: int) -> tuple[int, int, int, bool]:
    """(end, timestamp delta, offset delta, whether it has a key) of one record. CorruptBatch if it is invalid."""
    at, end = _record_bounds(data, position)
    if data[at]:
        raise CorruptBatch("a record has attributes, and none are defined")
    time_delta, at = _number(data, at + 1, end, INT64_BYTES_MAX)
    offset_delta, at = _number(data, at, end)
    key_length, at = _pass_blob(data, at, end, -1)
    _, at = _pass_blob(data, at, end, -1)
    header_count, at = _number(data, at, end)
    if header_count < 0 or header_count > (end - at) // 2:
        raise CorruptBatch("more headers than bytes")
    for _ in range(header_count):
        length, at = _pass_blob(data, at, end, 0)
        try:
            data[at - length : at].decode()
        except UnicodeDecodeError:
            raise CorruptBatch("the name of a header is not UTF-8") from None
        _, at = _pass_blob(data, at, end, -1)
    if at != end:
        raise CorruptBatch("a record does not end where its length says")
    return end, time_delta, offset_delta, key_length >= 0


def _record_bounds(data: bytes, position: int) -> tuple[int, int]:
    length, at = decode(data, position)
    if length < 1 or length > len(data) - at:
        raise CorruptBatch("a record does not lie within its batch")
    return at, at + length


def _number(data: bytes, position: int, end: int, *bytes_max: int) -> tuple[int, int]:
    value, position = decode(data, position, *bytes_max)
    if position > end:
        raise CorruptBatch("a number does not lie within its record")
    return value, position


def _pass_blob(data: bytes, position: int, end: int, length_min: int) -> tuple[int, int]:
    length, position = _number(data, position, end)
    if length < length_min or max(length, 0) > end - position:
        raise CorruptBatch("a length does not fit into its record")
    return length, position + max(length, 0)
