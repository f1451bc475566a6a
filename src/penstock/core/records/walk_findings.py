"""Results of a walk over the records of a batch, shared by the compiled and the pure-Python loops."""

from __future__ import annotations

from typing import NamedTuple

FINE, STRUCTURE, OFFSET, TIME, TRAILING = range(5)
"""How a walk ended: at the end, at a record with invalid lengths, offset or timestamp, or before trailing bytes."""


class Checked(NamedTuple):
    """The result of validating one batch. `record_index` is the record at which the walk ended."""

    status: int
    record_index: int
    max_timestamp_ms: int
    keyless: tuple[int, ...]
    untimely: tuple[int, ...]


class Spot(NamedTuple):
    """Where a record was found, or where the search ended. `is_broken`: the bytes there are not a valid record."""

    is_found: bool
    is_broken: bool
    record_index: int
    position: int
    offset_delta: int
    time_delta: int
