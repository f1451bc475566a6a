"""The sparse index of one segment: offset and time to position. segment.py rebuilds it from the batches.

An entry marks the start of a batch or the end of the data. It holds that batch's base offset, its position, the highest
timestamp *before* it (so entries ascend in time), and the *chain*: a checksum over the first bytes of every batch
before it. The chain covers what a batch's own checksum does not: offset, length and epoch. On disk an entry is 24 bytes
including a checksum, so that torn entries and bit flips are detected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from penstock.core.errors import TornSegment
from penstock.core.model import NO_TIMESTAMP
from penstock.core.ports import File

_ENTRY = Struct(">IIqI")
_CHECKED = Struct(">IIqII")
ENTRY_BYTES = _CHECKED.size
CHAINED_BYTES = 21
"""Base offset, length, leader epoch, magic and checksum: the bytes of each batch that the chain covers."""


class IndexEntry(NamedTuple):
    """One entry. The offset is relative to the segment's base."""

    offset: int
    position: int
    time_ms: int
    chain: int


START = IndexEntry(0, 0, NO_TIMESTAMP, 0)
"""The implicit entry at the start of the segment."""


class Index(ABC):
    """Entries in ascending order, searched by bisection."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def entry(self, at: int) -> IndexEntry: ...

    def last(self) -> IndexEntry:
        return self._at(len(self) - 1)

    def before(self, at: int) -> IndexEntry:
        """The entry before a given one."""
        return self._at(at - 1)

    def floor(self, offset: int) -> IndexEntry:
        """The last entry at or before a relative offset."""
        return self._at(bisect_right(range(len(self)), offset, key=self._key(0)) - 1)

    def floor_position(self, position: int) -> IndexEntry:
        """The last entry at or before a position."""
        return self._at(bisect_right(range(len(self)), position, key=self._key(1)) - 1)

    def ceil_position(self, position: int) -> IndexEntry | None:
        """The first entry at or after a position."""
        at = bisect_left(range(len(self)), position, key=self._key(1))
        return self.entry(at) if at < len(self) else None

    def before_time(self, time_ms: int) -> IndexEntry:
        """The last entry that only records older than `time_ms` precede."""
        return self._at(bisect_left(range(len(self)), time_ms, key=self._key(2)) - 1)

    def _at(self, at: int) -> IndexEntry:
        return self.entry(at) if at >= 0 else START

    def _key(self, field: int) -> Callable[[int], int]:
        return lambda at: self.entry(at)[field]


class SparseIndex(Index):
    """The index of the active segment: parallel arrays in memory."""

    __slots__ = ("_chains", "_offsets", "_positions", "_times_ms", "unsaved")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")
        self._times_ms = array("q")
        self._chains = array("I")
        self.unsaved = bytearray()
        """Encoded entries that are not in the index file yet."""

    def __len__(self) -> int:
        return len(self._offsets)

    def entry(self, at: int) -> IndexEntry:
        return IndexEntry(self._offsets[at], self._positions[at], self._times_ms[at], self._chains[at])

    def floor(self, offset: int) -> IndexEntry:
        return self._at(bisect_right(self._offsets, offset) - 1)

    def floor_position(self, position: int) -> IndexEntry:
        return self._at(bisect_right(self._positions, position) - 1)

    def add(self, entry: IndexEntry) -> None:
        self._put(entry)
        self.unsaved += encode_entry(entry)

    def _put(self, entry: IndexEntry) -> None:
        self._offsets.append(entry.offset)
        self._positions.append(entry.position)
        self._times_ms.append(entry.time_ms)
        self._chains.append(entry.chain)

    @property
    def saved_bytes(self) -> int:
        """The expected size of the index file."""
        return len(self._offsets) * ENTRY_BYTES - len(self.unsaved)

    def count_at_most(self, offset: int) -> int:
        """The number of entries at or before a relative offset."""
        return bisect_right(self._offsets, offset)

    def cut_position(self, position: int) -> None:
        """Remove the entries after a position."""
        self.truncate(bisect_right(self._positions, position))

    def truncate(self, count: int) -> None:
        """Keep only the first `count` entries."""
        saved_bytes = min(self.saved_bytes, count * ENTRY_BYTES)
        del self._offsets[count:], self._positions[count:], self._times_ms[count:], self._chains[count:]
        del self.unsaved[count * ENTRY_BYTES - saved_bytes :]


class SavedIndex(Index):
    """The index of a closed segment, searched in its file, so that it takes no memory."""

    __slots__ = ("_count", "_file")

    def __init__(self, file: File) -> None:
        self._file = file
        self._count = file.size() // ENTRY_BYTES

    def __len__(self) -> int:
        return self._count

    def entry(self, at: int) -> IndexEntry:
        found = decode_entry(self._file.read(at * ENTRY_BYTES, ENTRY_BYTES))
        if found is None:
            raise TornSegment(f"{self._file.path}: entry {at} does not match its checksum")
        return found

    def close(self) -> None:
        self._file.close()


def encode_entry(entry: IndexEntry) -> bytes:
    return _CHECKED.pack(*entry, crc32(_ENTRY.pack(*entry)))


def decode_entry(raw: bytes) -> IndexEntry | None:
    """One entry, or None if its checksum does not match."""
    if len(raw) != ENTRY_BYTES:
        return None
    offset, position, time_ms, chain, crc = _CHECKED.unpack(raw)
    if crc32(raw[: _ENTRY.size]) != crc:
        return None
    return IndexEntry(offset, position, time_ms, chain)


def decode(content: bytes, segment_bytes: int) -> SparseIndex:
    """The leading entries that are complete, ascending and inside the segment; the rest counts as torn."""
    found = SparseIndex()
    last_offset = last_position = -1
    for start in range(0, len(content), ENTRY_BYTES):
        entry = decode_entry(content[start : start + ENTRY_BYTES])
        if entry is None or entry.position > segment_bytes:
            break
        if entry.offset <= last_offset or entry.position <= last_position:
            break
        last_offset, last_position = entry.offset, entry.position
        found._put(entry)
    return found
