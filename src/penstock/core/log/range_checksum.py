"""The checksum of a range of offsets, to compare replicas: over the batches as they are stored, read back from disk and
verified. The owner plans a range; a worker reads it through files of its own.

Replicas divide their logs into segments at different offsets, so a checksum covers batches, whatever files they are in.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from penstock.core.errors import CorruptBatch, OffsetOutOfRange, TornSegment
from penstock.core.log.index import ENTRY_BYTES, SparseIndex, decode_entry
from penstock.core.log.log import Log
from penstock.core.log.segment import INDEX_SUFFIX, SCAN_CHUNK_BYTES, Segment, name_of
from penstock.core.ports import Files

DIGEST_BYTES = 16


class SegmentPart(NamedTuple):
    """The part of a segment that a range covers. A closed segment is searched by the worker."""

    base_offset: int
    next_offset: int
    size: int
    is_cleaned: bool
    span: tuple[int, int] | None
    """First position and end of the range in the active segment, whose index is in memory; None if it is closed."""


class RangePlan(NamedTuple):
    """What a worker has to read."""

    directory: str
    start_offset: int
    end_offset: int
    parts: Sequence[SegmentPart]


class RangeChecksum(NamedTuple):
    """The checksum of a range, and what was found beside it."""

    digest: bytes
    size_bytes: int
    rebuilt: Sequence[int]
    """Base offsets of the segments whose index was damaged and is rebuilt."""


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...


def choose_end(log: Log, start_offset: int, limit_offset: int, bytes_max: int) -> int:
    """Where a range of about `bytes_max` ends, within one segment: a batch boundary after `start_offset`, which is one
    as well, and at most `limit_offset`."""
    for segment in log.segments:
        if segment.next_offset <= start_offset:
            continue
        found = segment.find(start_offset, segment.size)
        if found is None:
            return min(segment.next_offset, limit_offset)
        _, next_offset = segment.run(found.position, bytes_max, segment.size)
        return min(limit_offset, segment.next_offset if next_offset is None else next_offset)
    return limit_offset


def first_boundary(log: Log, offset: int) -> int:
    """The first batch boundary at or after an offset: a log may start inside of a batch."""
    for segment in log.segments:
        if segment.next_offset > offset:
            found = segment.find(offset, segment.size)
            if found is None or found.header.base_offset >= offset:
                return offset
            return found.header.next_offset
    return offset


def plan_range(log: Log, start_offset: int, end_offset: int) -> RangePlan:
    """Raises OffsetOutOfRange if the log does not have the whole range, or offsets may be missing in it."""
    if not max(log.start_offset, log.gaps_before) <= start_offset < end_offset <= log.end_offset:
        raise OffsetOutOfRange(
            f"{log.directory}: offsets {start_offset} to {end_offset} cannot be compared, the log has"
            f" {max(log.start_offset, log.gaps_before)} to {log.end_offset}"
        )
    parts = []
    for segment in log.segments:
        if segment.next_offset <= start_offset or segment.base_offset >= end_offset:
            continue
        span = _span(segment, start_offset, end_offset) if segment is log.segments[-1] else None
        parts.append(
            SegmentPart(segment.base_offset, segment.next_offset, segment.size, segment.is_cleaned, span)
        )
    return RangePlan(log.directory, start_offset, end_offset, parts)


def is_current(log: Log, plan: RangePlan) -> bool:
    """Whether the log still has what was planned: not if the files were deleted or replaced meanwhile."""
    there = {segment.base_offset: segment.next_offset for segment in log.segments}
    return max(log.start_offset, log.gaps_before) <= plan.start_offset and all(
        there.get(part.base_offset, -1) >= part.next_offset for part in plan.parts
    )


def checksum_range(files: Files, plan: RangePlan) -> RangeChecksum:
    """Blocks on the disk. Raises CorruptBatch or TornSegment if batches are damaged, OffsetOutOfRange if a batch
    crosses a border of the range."""
    digest, size_bytes, rebuilt = blake2b(digest_size=DIGEST_BYTES), 0, list[int]()
    for part in plan.parts:
        segment = Segment(files, plan.directory, part.base_offset, create=False)
        try:
            segment.size, segment.is_cleaned = min(segment.size, part.size), part.is_cleaned
            segment.seal(part.next_offset)
            if segment.size < part.size:
                raise TornSegment(f"{segment.file.path} has {segment.size} bytes, expected {part.size}")
            if part.span is None:
                if plan.end_offset >= part.next_offset:  # once per segment
                    _check_index(files, plan.directory, segment)
                start, end = _span(segment, plan.start_offset, plan.end_offset)
                segment.verify(start, end - start)
                _digest_bytes(segment, start, end, digest)
                if isinstance(segment.index, SparseIndex):
                    rebuilt.append(part.base_offset)
            else:
                start, end = part.span
                _digest_batches(segment, start, end, max(plan.start_offset, part.base_offset), digest)
            size_bytes += end - start
        finally:
            segment.close()
    return RangeChecksum(digest.digest(), size_bytes, rebuilt)


def _span(segment: Segment, start_offset: int, end_offset: int) -> tuple[int, int]:
    """First position and end of the batches between two offsets."""
    start = 0 if start_offset <= segment.base_offset else _position(segment, start_offset)
    return start, segment.size if end_offset >= segment.next_offset else _position(segment, end_offset)


def _position(segment: Segment, offset: int) -> int:
    found = segment.find(offset, segment.size)
    if found is None or found.header.base_offset != offset:
        raise OffsetOutOfRange(f"{segment.file.path}: no batch starts at offset {offset}")
    return found.position


def _digest_bytes(segment: Segment, start: int, end: int, digest: _Hash) -> None:
    while start < end:
        chunk = segment.file.read(start, min(SCAN_CHUNK_BYTES, end - start))
        if not chunk:
            raise TornSegment(f"{segment.file.path} ends at byte {start}, expected {end}")
        digest.update(chunk)
        start += len(chunk)


def _digest_batches(segment: Segment, start: int, end: int, offset: int, digest: _Hash) -> None:
    for found in segment.walk(start, end, verify=True):
        if found.header.base_offset != offset:
            got = found.header.base_offset
            raise CorruptBatch(
                f"{segment.file.path} at byte {found.position}: got offset {got}, expected {offset}"
            )
        offset = found.header.next_offset
        digest.update(found.raw)


def _check_index(files: Files, directory: str, segment: Segment) -> None:
    """Rebuild the index of a closed segment if an entry is damaged: searches do not look at all of them."""
    path = f"{directory}/{name_of(segment.base_offset, INDEX_SUFFIX)}"
    content = files.read_whole(path) or b""
    entries = (decode_entry(content[at : at + ENTRY_BYTES]) for at in range(0, len(content), ENTRY_BYTES))
    if not all(entries):
        segment.rebuild_index()
