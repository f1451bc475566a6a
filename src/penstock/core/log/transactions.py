"""Transactions in one partition: the open and aborted ones, and the last stable offset.

Observes batches in log order; whether a producer may write is decided elsewhere. The *last stable offset* is the first
offset of the earliest transaction that is open or whose marker is not visible yet. Aborted transactions are retained,
in memory and in one file, for readers that must skip them. The producer snapshot records how many of the file's entries
it relies on and their checksum, so that an outdated or torn file is detected.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from penstock.core.errors import TornSegment
from penstock.core.ports import Files

FILE_NAME = "aborted-transactions"
_ENTRY = Struct(">qqqq")
_marker_of = itemgetter(0)


class Aborted(NamedTuple):
    """One aborted transaction, from `first_offset` to its marker at `last_offset`.

    `stable_offset` is the last stable offset after the marker: no later abort has a record before it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class PartitionTransactions:
    """Open and aborted transactions of one partition."""

    __slots__ = ("_checksum", "_columns", "_ended", "_files", "_open", "_path", "_saved_count")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
        self._open: dict[int, int] = {}
        """Producer id to first offset. Offsets ascend, so the first entry is the earliest."""
        self._ended: list[tuple[int, int]] = []
        """(marker offset, first offset) of transactions whose marker may be after the high watermark."""
        self._columns = _columns()
        self._saved_count = -1
        """Entries in the file, identical to those in memory; -1 if the file must be rewritten."""
        self._checksum = 0
        """Checksum of the file's entries."""

    # -- appends

    def observe_data(self, producer_id: int, offset: int) -> None:
        """Record a transactional batch at `offset`; the first one opens the transaction."""
        if producer_id not in self._open:
            self._open[producer_id] = offset

    def observe_marker(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Record a marker at `offset`. Ignored if the producer has no open transaction."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return
        self._ended.append((offset, first_offset))
        if not is_commit:
            stable_offset = next(iter(self._open.values()), offset + 1)
            for column, value in zip(
                self._columns, (producer_id, first_offset, offset, stable_offset), strict=True
            ):
                column.append(value)

    # -- queries of readers

    def is_open(self, producer_id: int) -> bool:
        return producer_id in self._open

    def first_offset(self, producer_id: int) -> int | None:
        """The start of the producer's open transaction, if any."""
        return self._open.get(producer_id)

    def first_unstable(self, high_watermark: int) -> int | None:
        """The start of the earliest transaction that is open or ends after the high watermark."""
        ended = self._ended
        if ended:
            del ended[: bisect_left(ended, high_watermark, key=_marker_of)]
        first = next(iter(self._open.values()), None)
        if ended:
            earliest = min(first_offset for _, first_offset in ended)
            return earliest if first is None else min(first, earliest)
        return first

    def aborted_between(self, start: int, end: int) -> list[Aborted]:
        """The aborted transactions that may have records between `start` and `end`."""
        found: list[Aborted] = []
        for at in range(bisect_left(self._columns[2], start), len(self._columns[2])):
            one = self._at(at)
            if one.first_offset < end:
                found.append(one)
            if one.stable_offset >= end:
                break
        return found

    def _at(self, at: int) -> Aborted:
        return Aborted(*(column[at] for column in self._columns))

    @property
    def aborted_count(self) -> int:
        return len(self._columns[0])

    # -- shrinking

    def cut_start(self, offset: int) -> None:
        """Remove the transactions that ended before the new log start `offset`."""
        count = bisect_left(self._columns[2], offset)
        if count:
            for column in self._columns:
                del column[:count]
            self._saved_count = -1

    # -- persistence

    def save(self, high_watermark: int) -> dict[str, Any]:
        """Write the file, without a sync; returns what a snapshot must store to continue from here.

        This includes transactions that ended after the high watermark: a reopened log does not know how much of it was
        visible.
        """
        count = self.aborted_count
        if self._saved_count == -1:
            self._rewrite()
        elif self._saved_count < count:
            self._extend()
        self._saved_count = count
        ended = [one for one in self._ended if one[0] >= high_watermark]
        return {
            "open": list(self._open.items()), "ended": ended, "aborted": count, "checksum": self._checksum
        }  # fmt: skip

    def _rewrite(self) -> None:
        content = self._encode(0)
        self._checksum = crc32(content)
        if content:
            self._files.write_whole(self._path, content, sync=False)
        else:
            self._files.remove(self._path)

    def _extend(self) -> None:
        content = self._encode(self._saved_count)
        file = self._files.open(self._path, create=True)
        try:
            file.truncate(self._saved_count * _ENTRY.size)
            file.append((content,))
        finally:
            file.close()
        self._checksum = crc32(content, self._checksum)

    def _encode(self, first: int) -> bytes:
        return b"".join(_ENTRY.pack(*self._at(at)) for at in range(first, self.aborted_count))

    def clear(self) -> None:
        """Clear the state before the batches are replayed."""
        self._open, self._columns, self._saved_count = {}, _columns(), -1
        self._ended.clear()

    def load(self, saved: dict[str, Any]) -> None:
        """Restore a snapshot. Raises TornSegment if the file lacks entries that the snapshot relies on."""
        self.clear()
        content = (self._files.read_whole(self._path) or b"")[: saved["aborted"] * _ENTRY.size]
        if crc32(content) != saved["checksum"] or len(content) != saved["aborted"] * _ENTRY.size:
            raise TornSegment(
                f"{self._path} does not contain the {saved['aborted']} entries that the snapshot expects"
            )
        self._open = dict(saved["open"])
        self._ended.extend((marker, first) for marker, first in saved.get("ended", ()))
        for entry in _ENTRY.iter_unpack(content):
            for column, value in zip(self._columns, entry, strict=True):
                column.append(value)
        self._saved_count, self._checksum = saved["aborted"], saved["checksum"]


def _columns() -> tuple[array[int], array[int], array[int], array[int]]:
    return array("q"), array("q"), array("q"), array("q")
