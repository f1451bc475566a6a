"""The sparse index of one segment: offset and time to position. Never reads the segment itself; recovery rebuilds it.

An entry stands for a place where a batch starts (or the end of the file). It holds that batch's base offset,
its position, and the highest timestamp *before* it, which makes the times of the entries ascend. On disk an entry
is 20 bytes with its own checksum, so a torn or flipped entry is found out and everything from it on is rebuilt.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from zlib import crc32

from penstock.core.model import NO_TIMESTAMP

_ENTRY = Struct(">IIq")
_CHECKED = Struct(">IIqI")
ENTRY_BYTES = _CHECKED.size


class SparseIndex:
    """Three parallel arrays, ascending. Offsets are relative to the segment's base."""

    __slots__ = ("offsets", "positions", "times_ms", "unsaved")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")
        self.times_ms = array("q")
        self.unsaved = bytearray()
        """The last entries in their encoding: those that the index file does not have yet."""

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, position: int, time_ms: int) -> None:
        self.offsets.append(offset)
        self.positions.append(position)
        self.times_ms.append(time_ms)
        self.unsaved += encode_entry(offset, position, time_ms)

    @property
    def saved_bytes(self) -> int:
        """How long the index file should be now."""
        return len(self.offsets) * ENTRY_BYTES - len(self.unsaved)

    def floor(self, offset: int) -> int:
        """The position of the last entry at or before a relative offset; 0 when there is none."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else 0

    def floor_entry(self, position: int) -> tuple[int, int] | None:
        """The last entry at or before a position, as (relative offset, position)."""
        at = bisect_right(self.positions, position) - 1
        return (self.offsets[at], self.positions[at]) if at >= 0 else None

    def before_time(self, time_ms: int) -> int:
        """A position before which every record is older than `time_ms`."""
        at = bisect_left(self.times_ms, time_ms) - 1
        return self.positions[at] if at >= 0 else 0

    def last(self) -> tuple[int, int, int]:
        """The last entry as (relative offset, position, highest time before it); the start when empty."""
        if not self.offsets:
            return (0, 0, NO_TIMESTAMP)
        return (self.offsets[-1], self.positions[-1], self.times_ms[-1])

    def cut(self, position: int) -> None:
        """Forget the entries behind `position`."""
        self._keep(bisect_right(self.positions, position))

    def cut_offset(self, offset: int) -> None:
        """Forget the entries behind a relative offset."""
        self._keep(bisect_right(self.offsets, offset))

    def _keep(self, count: int) -> None:
        saved_bytes = min(self.saved_bytes, count * ENTRY_BYTES)
        del self.offsets[count:], self.positions[count:], self.times_ms[count:]
        del self.unsaved[count * ENTRY_BYTES - saved_bytes :]


def encode_entry(offset: int, position: int, time_ms: int) -> bytes:
    return _CHECKED.pack(offset, position, time_ms, crc32(_ENTRY.pack(offset, position, time_ms)))


def decode_entry(raw: bytes) -> tuple[int, int, int] | None:
    """One entry, or None when its checksum says that it is not one."""
    if len(raw) != ENTRY_BYTES:
        return None
    offset, position, time_ms, crc = _CHECKED.unpack(raw)
    if crc32(raw[: _ENTRY.size]) != crc:
        return None
    return offset, position, time_ms


def decode(content: bytes, segment_bytes: int) -> SparseIndex:
    """As many entries as are whole, ascending and inside the segment; the rest counts as torn."""
    found = SparseIndex()
    last_offset = last_position = -1
    for start in range(0, len(content), ENTRY_BYTES):
        entry = decode_entry(content[start : start + ENTRY_BYTES])
        if entry is None or entry[1] > segment_bytes or entry[0] <= last_offset or entry[1] <= last_position:
            break
        last_offset, last_position = entry[0], entry[1]
        found.add(*entry)
    found.unsaved.clear()
    return found
