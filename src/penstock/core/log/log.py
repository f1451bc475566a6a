"""One partition's log: an ordered list of segments, the last of which is active. Never syncs: the owner does.

The owner syncs the dirty files, reports back, and sets the high watermark: a batch boundary before which everything is
visible to readers. The two are independent: on a single node the watermark follows the flushed offset, with several
replicas the leader computes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from penstock.core.errors import CorruptBatch, OffsetOutOfRange, TornSegment
from penstock.core.log import checksummed_file
from penstock.core.log.epochs import Epochs
from penstock.core.log.producers import Producers
from penstock.core.log.segment import Segment, Slice, StoredBatch
from penstock.core.log.transactions import PartitionTransactions
from penstock.core.model import NO_TIMESTAMP
from penstock.core.ports import File, Files
from penstock.core.records.batch import PREFIX_BYTES, BatchHeader, stamp

START_FILE = "log-start"
OFFSET_SPAN_MAX = 2**31 - 1
"""Offsets inside a segment are stored relative to its base in 32 bits."""
HINTS_MAX = 256
"""Next positions remembered for sequential readers, which then need no index search."""
MARKS_MAX = 1_024
"""Batch boundaries cached between the high watermark and the end; evicted ones are looked up through the index."""

_new = tuple.__new__
_offset_of = itemgetter(0)


class LogLimits(NamedTuple):
    """When to roll a segment, and how sparse the index is."""

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int


class BatchBoundary(NamedTuple):
    """A batch boundary: offset, segment and position. Valid until the log is truncated or compacted."""

    offset: int
    segment_base: int
    position: int


class SyncPlan(NamedTuple):
    """Files and directories to sync, in this order, to make everything before `end_offset` durable."""

    files: tuple[File, ...]
    directories: tuple[str, ...]
    end_offset: int
    cuts: int
    """The number of truncations so far: fences a plan that was made before a truncation."""


class Log:
    """Made by `recovery.open_log`."""

    def __init__(self, files: Files, directory: str, limits: LogLimits) -> None:
        self.files = files
        self.directory = directory
        self.limits = limits
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.start_offset = 0
        self.end_offset = 0
        self.epochs = Epochs(files, directory)
        self.transactions = PartitionTransactions(files, directory)
        self.producers = Producers(files, directory, self.transactions)
        self.high_watermark = 0
        """Everything before this offset is visible to readers. Set by the owner with `advance`."""
        self.high_watermark_mark = BatchBoundary(0, 0, 0)
        """The position of the high watermark."""
        self.synced_offset = 0
        """Everything before this offset is on stable storage."""
        self._marks: list[tuple[int, int, int]] = []
        """The latest batch boundaries after the high watermark, as plain tuples: one per append."""
        self._active: Segment | None = None
        self._active_since_ms = 0
        self._dirty_files: list[File] = []
        self._dirty_directories: list[str] = []
        self._hints: dict[int, int] = {}
        """Next offset to position in the active segment, for sequential readers."""
        self._cuts = 0
        self._stable: BatchBoundary | None = None
        self._retired_bytes = 0
        self.gaps_before = 0
        """Offsets may be missing before this one, because compaction removed them here or on an earlier leader."""

    # -- writing

    def append(
        self, batch: bytearray | memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> int:
        """Assign the next offset to one validated batch and append it; returns the offset. Not durable until synced."""
        active = self._active
        limits = self.limits
        if (
            active is None
            or active.size + header.length + PREFIX_BYTES > limits.segment_bytes
            or now_ms - self._active_since_ms >= limits.segment_ms
            or self.end_offset + header.last_offset_delta - active.base_offset > OFFSET_SPAN_MAX
        ):
            active = self.roll(now_ms)
        offset = self.end_offset
        stamp(batch, offset, leader_epoch)
        active.append(batch, header, offset, limits.index_interval_bytes)
        self.end_offset = end_offset = active.next_offset
        marks = self._marks
        marks.append((end_offset, active.base_offset, active.size))
        if len(marks) > MARKS_MAX:
            del marks[: MARKS_MAX // 2]
        if leader_epoch > self.epochs.latest:
            self.epochs.observe(leader_epoch, offset)
        if header.producer_id >= 0:
            self.producers.observe(header, offset, now_ms, batch)
        if not self._dirty_files or self._dirty_files[-1] is not active.file:
            self._dirty_files.append(active.file)
        return offset

    def begin_epoch(self, epoch: int) -> None:
        """The owner leads in `epoch` from here on. Recorded before the first append, so that the end of the previous
        epoch is correct even if nothing is ever written in this one."""
        self.epochs.observe(epoch, self.end_offset)

    def roll(self, now_ms: int) -> Segment:
        """Close the active segment and start one at the end offset. An empty active segment is reused."""
        active = self._active
        if active is not None:
            if active.size == 0:
                self._active_since_ms = now_ms
                return active
            self.save_state()
        else:
            self.files.make_dir(self.directory)  # left by a run that crashed before the file name was durable
            self._dirty_directories += parents_of(self.directory)
        segment = Segment(self.files, self.directory, self.end_offset, create=True)
        if active is not None:
            active.retire()
            self._retired_bytes += active.size
        self.adopt(segment)
        self._active_since_ms = now_ms
        self._dirty_files.append(segment.file)
        self._dirty_directories.append(self.directory)
        self._hints.clear()
        return segment

    def adopt(self, segment: Segment) -> None:
        """Append a segment to the list; it becomes the active one."""
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self._active = segment

    def mark_dirty(self, segment: Segment) -> None:
        """Recovered data may exist only in the page cache: it must be synced before it counts as durable."""
        self._dirty_files.append(segment.file)
        self.mark_names_dirty()

    def mark_names_dirty(self) -> None:
        """Recovered file names may exist only in the page cache: the next sync includes them."""
        if self.directory not in self._dirty_directories:
            self._dirty_directories += [self.directory, *parents_of(self.directory)]

    def settle_age(self, now_ms: int) -> None:
        """After recovery the age of the active segment counts from its first record, if that has a timestamp."""
        first_time_ms = self.segments[-1].first_time_ms
        self._active_since_ms = first_time_ms if 0 < first_time_ms < now_ms else now_ms

    def active_is_older_than(self, age_ms: int, now_ms: int) -> bool:
        return self._active is not None and self._active.size > 0 and now_ms - self._active_since_ms >= age_ms

    def save_state(self) -> None:
        """Write index, producer and epoch state as of the end, so that recovery need not read earlier batches."""
        if self._active is not None:
            self._active.save_index()
            self.producers.save(self.end_offset, self.high_watermark)
            self.epochs.save()

    # -- durability

    @property
    def written_bytes(self) -> int:
        """A counter of appended bytes, for tasks that react to growth."""
        return self._retired_bytes + (0 if self._active is None else self._active.size)

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty_files)

    def end_mark(self) -> BatchBoundary:
        if self._active is None:
            return BatchBoundary(self.end_offset, 0, 0)
        return BatchBoundary(self.end_offset, self._active.base_offset, self._active.size)

    def take_dirty(self) -> SyncPlan:
        """What must be synced now; the caller takes over the dirty files."""
        plan = SyncPlan(tuple(self._dirty_files), tuple(self._dirty_directories), self.end_offset, self._cuts)
        self._dirty_files, self._dirty_directories = [], []
        return plan

    def mark_synced(self, plan: SyncPlan) -> None:
        """A plan was executed. If the log was truncated since, the sync does not count: other records may occupy the
        synced offsets. The next plan covers what the truncation left dirty."""
        if plan.cuts == self._cuts and plan.end_offset > self.synced_offset:
            self.synced_offset = plan.end_offset

    # -- visibility

    def advance(self, offset: int) -> None:
        """Advance the high watermark to a batch boundary. It never moves back, nor past the end."""
        if offset >= self.end_offset:
            if self.end_offset <= self.high_watermark:
                return
            marks = self._marks
            mark = _new(BatchBoundary, marks[-1]) if marks else self.end_mark()
            marks.clear()
        elif offset <= self.high_watermark:
            return
        else:
            mark = self._boundary(offset)
        self.high_watermark_mark = mark
        self.high_watermark = mark.offset

    def _boundary(self, offset: int) -> BatchBoundary:
        """The cached boundary at an offset; earlier ones are evicted. Falls back to the index."""
        marks = self._marks
        count = bisect_right(marks, offset, key=_offset_of)
        found = marks[count - 1] if count else None
        del marks[:count]
        if found is None or found[0] != offset:
            return self._search_boundary(offset)
        boundary: BatchBoundary = _new(BatchBoundary, found)
        return boundary

    def _search_boundary(self, offset: int) -> BatchBoundary:
        """The boundary at an offset, or at the start of the batch that contains it, found through the index."""
        segment = self.segments[max(0, bisect_right(self._bases, offset) - 1)]
        found = segment.find(offset, segment.size)
        if found is None:
            return BatchBoundary(offset, segment.base_offset, segment.size)
        return BatchBoundary(min(offset, found.header.base_offset), segment.base_offset, found.position)

    def stable(self) -> BatchBoundary:
        """The last stable offset, where read_committed consumers stop: at most the high watermark."""
        offset = self.transactions.first_unstable(self.high_watermark)
        if offset is None:
            return self.high_watermark_mark
        offset = max(offset, self.start_offset)
        if offset >= self.high_watermark:
            return self.high_watermark_mark
        if self._stable is None or self._stable.offset != offset:
            self._stable = self._search_boundary(offset)._replace(offset=offset)
        return self._stable

    # -- reading

    def read(self, offset: int, bytes_max: int, limit: BatchBoundary) -> Slice | None:
        """Complete batches from the one that contains `offset` up to `limit`; None if there is no data yet."""
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is out of range: the log covers {self.start_offset} to {self.end_offset}"
            )
        at = bisect_right(self._bases, offset) - 1
        if at < 0:
            at = 0
        while at < len(self.segments) and offset < limit.offset:
            segment = self.segments[at]
            if segment.base_offset > limit.segment_base:
                return None
            end = limit.position if limit.offset < segment.next_offset else segment.size
            position = self._hints.get(offset) if segment is self._active else None
            if position is None:
                found = segment.find(offset, end)
                if found is None:
                    at += 1
                    continue
                position = found.position
            return self._slice(segment, position, bytes_max, end, limit)
        return None

    def _slice(
        self, segment: Segment, position: int, bytes_max: int, end: int, limit: BatchBoundary
    ) -> Slice:
        length, next_offset = segment.run(position, bytes_max, end)
        segment.verify(position, length)
        if next_offset is None:
            next_offset = min(limit.offset, segment.next_offset)
        if segment is self._active:
            hints = self._hints
            if next_offset not in hints and len(hints) >= HINTS_MAX:
                del hints[next(iter(hints))]
            hints[next_offset] = position + length
        return Slice(segment.file, position, length, next_offset)

    def after_damage(self, offset: int) -> int:
        """The next offset after damage at which reading can continue."""
        segment = self.segments[max(0, bisect_right(self._bases, offset) - 1)]
        try:
            next_offset = segment.after_damage(offset)
        except (CorruptBatch, TornSegment):  # the index is unreadable as well
            next_offset = segment.next_offset
        return max(offset + 1, next_offset)

    def find_time(self, time_ms: int, limit: BatchBoundary) -> StoredBatch | None:
        """The first batch before `limit` that contains a record at or after `time_ms`, with its bytes."""
        for segment in self.segments:
            if segment.base_offset > limit.segment_base:
                break
            if segment.newest_time_ms() < time_ms:
                continue
            end = limit.position if limit.offset < segment.next_offset else segment.size
            found = segment.find_time(time_ms, end, self.start_offset)
            if found is not None:
                return found
        return None

    def newest_time_ms(self, limit: BatchBoundary) -> int:
        """The highest timestamp of readable records before `limit`.

        Complete segments know theirs; in partial segments at both ends the batches are scanned.
        """
        newest_ms = NO_TIMESTAMP
        for segment in self.segments:
            if segment.base_offset >= limit.offset or segment.newest_time_ms() <= newest_ms:
                continue
            if segment.base_offset >= self.start_offset and segment.next_offset <= limit.offset:
                newest_ms = segment.newest_time_ms()
                continue
            for found in self._batches_of(segment, limit):
                newest_ms = max(newest_ms, found.header.max_timestamp_ms)
        return newest_ms

    def _batches_of(self, segment: Segment, limit: BatchBoundary) -> Iterator[StoredBatch]:
        """The visible batches of one segment, headers only."""
        first = segment.find(max(self.start_offset, segment.base_offset), segment.size)
        for found in segment.walk(
            segment.size if first is None else first.position, segment.size, verify=False
        ):
            if found.header.base_offset >= limit.offset:
                return
            yield found

    def headers_from(self, offset: int) -> Iterator[StoredBatch]:
        """Every batch that ends after `offset`, headers only."""
        for segment in self.segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            yield from self.headers_of(segment, offset)

    def headers_of(self, segment: Segment, offset: int) -> Iterator[StoredBatch]:
        """The batches of one segment that end after `offset`, headers only."""
        first = segment.find(offset, segment.size) if offset > segment.base_offset else None
        if first is not None or offset <= segment.base_offset:
            yield from segment.walk(0 if first is None else first.position, segment.size, verify=False)

    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    # -- shrinking

    def persist_start(self, offset: int) -> None:
        """Persist a new start offset before it takes effect. Blocks on the disk; changes no other state."""
        checksummed_file.write(self.files, f"{self.directory}/{START_FILE}", offset)

    def read_start(self) -> int | None:
        """The persisted start offset. Raises TornSegment if its file is damaged."""
        start: int | None = checksummed_file.read(self.files, f"{self.directory}/{START_FILE}")
        return start

    def advance_start(self, offset: int) -> None:
        """Move the start to `offset` and delete segments that lie entirely before it."""
        if offset <= self.start_offset:
            return
        self.advance(offset)
        self.start_offset = offset
        count = sum(1 for segment in self.segments[:-1] if segment.next_offset <= offset)
        self.drop_first(count)
        self.epochs.cut_start(offset)
        self.transactions.cut_start(offset)

    def drop_first(self, count: int) -> None:
        """Delete the oldest segments; the active one always stays, because its name preserves the end offset."""
        assert count < len(self.segments) or count == 0
        for segment in self.segments[:count]:
            segment.remove()
        del self.segments[:count], self._bases[:count]
        if count:
            self.start_offset = max(self.start_offset, self.segments[0].base_offset)
            self.advance(self.start_offset)
            self.epochs.cut_start(self.start_offset)
            self.transactions.cut_start(self.start_offset)
            self._hints.clear()

    def replace(self, old: list[Segment], new: list[Segment]) -> None:
        """Replace segments by their compacted versions, whose files are already in place."""
        at = self.segments.index(old[0])
        assert self.segments[at : at + len(old)] == old and self._active not in old
        behind = self.segments[at + len(old)]
        if self.high_watermark_mark.segment_base < behind.base_offset:
            self.high_watermark_mark = BatchBoundary(self.high_watermark, behind.base_offset, 0)
        self.segments[at : at + len(old)] = new
        self._bases[at : at + len(old)] = [segment.base_offset for segment in new]

    def truncate(self, offset: int, now_ms: int) -> None:
        """Truncate from the first batch that ends after `offset`.

        May block on the disk: truncated data must not reappear after a crash.
        """
        if offset >= self.end_offset:
            return
        while self.segments and self.segments[-1].base_offset > offset:
            self.segments.pop().remove()
            self._bases.pop()
        self._active = self.segments[-1] if self.segments else None
        self.end_offset = offset if self._active is None else self._cut_segment(self._active, offset)
        self._cuts += 1
        self._hints.clear()
        self._stable = None
        self._forget_behind_end()
        if self.start_offset > self.end_offset:
            self.persist_start(self.end_offset)
            self.start_offset = self.end_offset
        self.epochs.cut_end(self.end_offset)
        self.epochs.save(sync=True)
        self.rebuild_producers(now_ms)
        self._dirty_directories.append(self.directory)

    def restart(self, offset: int, now_ms: int) -> None:
        """Delete all records and continue at `offset`, which becomes start, end and high watermark together.

        Blocks on the disk: deleted records must not reappear after a crash.
        """
        self._retired_bytes = self.written_bytes
        for segment in self.segments:
            segment.remove()
        self.segments, self._bases, self._active = [], [], None
        self._dirty_files, self._marks = [], []
        self._cuts += 1
        self._hints.clear()
        self._stable = None
        self.start_offset = self.end_offset = self.synced_offset = offset
        self.epochs.cut_end(0)
        self.producers.load(-1)
        self.roll(now_ms)
        self.persist_start(offset)
        self.epochs.save(sync=True)
        self.high_watermark, self.high_watermark_mark = offset, self.end_mark()

    def _forget_behind_end(self) -> None:
        """Drop all cached state about records after the new end."""
        while self._marks and self._marks[-1][0] > self.end_offset:
            self._marks.pop()
        self.synced_offset = min(self.synced_offset, self.end_offset)
        if self.end_offset < self.high_watermark:
            self.high_watermark = self.end_offset
            self.high_watermark_mark = self.end_mark()

    def _cut_segment(self, segment: Segment, offset: int) -> int:
        found = segment.find(offset, segment.size)
        position = segment.size if found is None else found.position
        start = segment.resume(offset if found is None else found.header.base_offset)
        segment.truncate(position)
        segment.scan(start, position, self.limits.index_interval_bytes)
        self._dirty_files = [file for file in self._dirty_files if file is not segment.file] + [segment.file]
        return segment.next_offset

    def rebuild_producers(self, now_ms: int) -> None:
        """Load the newest valid snapshot and replay the batches after it."""
        snapshot_offset = self.producers.load(self.end_offset)
        if self.producers.has_dropped:
            self._dirty_directories.append(self.directory)
        if snapshot_offset >= self.end_offset:
            return
        for found in self.headers_from(max(snapshot_offset, self.start_offset)):
            self.producers.observe(found.header, found.header.base_offset, now_ms, found.raw)
        self.transactions.cut_start(self.start_offset)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def parents_of(directory: str) -> list[str]:
    """The parent directories, innermost first; the root is the empty string."""
    parts = directory.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]
