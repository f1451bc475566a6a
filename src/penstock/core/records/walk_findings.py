"""What a walk over the records of a batch finds: values only, shared by the compiled and the plain loops."""

from __future__ import annotations

from typing import NamedTuple

FINE, STRUCTURE, OFFSET, TIME, TRAILING = range(5)
"""How a walk ended: at the end, or at a record whose lengths, offset or time cannot be, or before bytes left over."""


class Checked(NamedTuple):
    """The records of one batch, checked. `record_index` is the one at which the walk ended."""

    status: int
    record_index: int
    max_timestamp_ms: int
    keyless: tuple[int, ...]
    untimely: tuple[int, ...]


class Spot(NamedTuple):
    """Where a record was found, or where the search ended. `is_broken`: the bytes there are not a record."""

    is_found: bool
    is_broken: bool
    record_index: int
    position: int
    offset_delta: int
    time_delta: int
