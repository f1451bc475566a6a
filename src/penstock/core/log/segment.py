"""One segment: a data file and its sparse index. log.py decides when to roll.

Data that this process wrote or verified is trusted; everything else is verified before it is served for the first time:
each batch's checksum, and the chain between two index entries, which also covers offsets, lengths and epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from penstock.core.errors import CorruptBatch, DiskFailed, DiskFull, OutOfDescriptors, TornSegment
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log import index as sparse
from penstock.core.log.index import CHAINED_BYTES, Index, IndexEntry, SavedIndex, SparseIndex
from penstock.core.log.verified_ranges import VerifiedRanges
from penstock.core.model import NO_EPOCH, NO_TIMESTAMP
from penstock.core.ports import File, Files
from penstock.core.records.batch import CONTROL, PREFIX_BYTES, BatchHeader, Buffer, checksum, decode_header

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
SCAN_CHUNK_BYTES = 1 << 20
PEEK_CHUNK_BYTES = 1 << 14
REBUILT_INTERVAL_BYTES = 1 << 12


class Slice(NamedTuple):
    """A run of complete batches in one file, for sendfile; it ends before `end_offset`, if known."""

    file: File
    position: int
    length: int
    end_offset: int = -1

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)


class StoredBatch(NamedTuple):
    """One batch found while walking a segment."""

    position: int
    header: BatchHeader
    raw: memoryview

    @property
    def end(self) -> int:
        return self.position + self.header.size


def name_of(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def segment_bases(files: Files, directory: str) -> list[int]:
    """The base offsets of a log's segments, ascending; empty if there is no log."""
    names = [name.removesuffix(LOG_SUFFIX) for name in files.names(directory) if name.endswith(LOG_SUFFIX)]
    return sorted(int(name) for name in names if len(name) == 20 and name.isdigit())


class Segment:
    """The batches from `base_offset` up to `next_offset`, `size` bytes."""

    __slots__ = (
        "_chain",
        "_files",
        "_index",
        "_index_path",
        "_indexed_at",
        "_time_is_known",
        "_unchecked_entries",
        "_verified",
        "_written_from",
        "base_offset",
        "epoch_starts",
        "file",
        "first_time_ms",
        "is_cleaned",
        "max_time_ms",
        "next_offset",
        "size",
    )  # fmt: skip

    def __init__(
        self, files: Files, directory: str, base_offset: int, *, create: bool, suffix: str = ""
    ) -> None:
        self._files = files
        self.base_offset = base_offset
        self._index_path = f"{directory}/{name_of(base_offset, INDEX_SUFFIX + suffix)}"
        if create:
            files.remove(self._index_path)
        self.file = files.open(f"{directory}/{name_of(base_offset, LOG_SUFFIX + suffix)}", create=create)
        self.size = self.file.size()
        self.next_offset = base_offset
        self.is_cleaned = False
        """Whether compaction may have left gaps between offsets."""
        self.epoch_starts: list[tuple[int, int]] = []
        """(epoch, offset) of the first scanned batch of each epoch."""
        self.max_time_ms = NO_TIMESTAMP
        self.first_time_ms = NO_TIMESTAMP
        self._time_is_known = create
        self._index: Index | None = SparseIndex() if create else None
        self._indexed_at = 0
        self._chain = 0
        self._verified = VerifiedRanges()
        self._unchecked_entries: list[IndexEntry] = []
        self._written_from = self.size
        """Everything from this position on was written by this process."""

    # -- writing

    def append(self, batch: Buffer, header: BatchHeader, base_offset: int, interval: int) -> None:
        """Append a stamped batch. `header` may still carry the producer's base offset."""
        position = self.size
        self.file.append((batch,))
        self.index_batch(position, header, base_offset, batch, interval)

    def index_batch(
        self, position: int, header: BatchHeader, base_offset: int, raw: Buffer, interval: int
    ) -> None:
        """Add the batch at `position`, the current end, to the index and the counters."""
        if position - self._indexed_at >= (interval or 1):
            index = self._index
            assert isinstance(index, SparseIndex)
            index.add(IndexEntry(base_offset - self.base_offset, position, self.max_time_ms, self._chain))
            self._indexed_at = position
        if position == 0:
            self.first_time_ms = header.max_timestamp_ms
        if header.max_timestamp_ms > self.max_time_ms:
            self.max_time_ms = header.max_timestamp_ms
        self._chain = crc32(raw[:CHAINED_BYTES], self._chain)
        self.size = position + header.length + PREFIX_BYTES
        self.next_offset = base_offset + header.last_offset_delta + 1

    def scan(self, position: int, end: int, interval: int) -> None:
        """Verify and index the batches from `position` to `end`. On CorruptBatch the valid ones before it are indexed.

        Offsets must be contiguous, unless the segment was compacted, and epochs must not decrease: where they do,
        either of the two batches may be damaged, so neither is indexed.
        """
        self.size = position
        self.epoch_starts = []
        # A batch is held back until its successor's epoch is known: neither checksum covers epochs, so a decrease does
        # not tell which of the two is damaged.
        held: StoredBatch | None = None
        epoch = NO_EPOCH
        try:
            for found in self.walk(position, end, verify=True):
                self._check_offset(found, self.next_offset if held is None else held.header.next_offset)
                if found.header.leader_epoch < epoch:
                    held = None
                    raise CorruptBatch(
                        f"{self.file.path} at byte {found.position}: the leader epoch decreases"
                    )
                if held is not None:
                    self._index_scanned(held, interval)
                    held = None
                if self._unchecked_entries and found.position >= self._unchecked_entries[-1].position:
                    self._check_entry()
                held, epoch = found, found.header.leader_epoch
        finally:
            if held is not None:
                self._index_scanned(held, interval)
            self._verified.add(position, self.size)
            self._time_is_known = True
        if self._unchecked_entries and self.size >= self._unchecked_entries[-1].position:
            self._check_entry()
        self._unchecked_entries = []

    def _index_scanned(self, found: StoredBatch, interval: int) -> None:
        header = found.header
        if not self.epoch_starts or self.epoch_starts[-1][0] != header.leader_epoch:
            self.epoch_starts.append((header.leader_epoch, header.base_offset))
        self.index_batch(found.position, header, header.base_offset, found.raw, interval)

    def _check_offset(self, found: StoredBatch, expected: int) -> None:
        offset = found.header.base_offset
        if offset < expected or (offset > expected and not self.is_cleaned):
            raise CorruptBatch(
                f"{self.file.path} at byte {found.position}: got offset {offset}, expected {expected}"
            )

    def _check_entry(self) -> None:
        """Index entries past the recovery point are checked against the scanned batches."""
        # Data may be missing after a crash, because the index is written without a sync: entries past the end are
        # ignored. A mismatch at a batch that is present means that other batches were written there.
        entry = self._unchecked_entries.pop()
        if (entry.position, entry.chain) != (self.size, self._chain):
            raise TornSegment(
                f"{self.file.path}: the batches before byte {entry.position} do not match the index"
            )

    def truncate(self, position: int) -> None:
        """Truncate at a batch boundary, the index first: an index must never refer to batches that were overwritten."""
        index = self._index
        if isinstance(index, SparseIndex):
            index.cut_position(position)
            self._trim_index_file(index)
        self.file.truncate(position)
        self.size = position
        self._verified.cut(position)
        self._unchecked_entries = []
        self._written_from = min(self._written_from, position)

    def save_copy(self, path: str, content: bytes) -> None:
        """Save bytes that are about to be truncated."""
        self._files.write_whole(path, content)

    # -- the index

    @property
    def index(self) -> Index:
        """The index: of a closed segment searched in its file, rebuilt from the batches if the file is unusable."""
        if self._index is None:
            self._index = self._saved_index() or self.rebuild_index()
        return self._index

    def resume(self, offset_max: int) -> int:
        """Load the index up to an offset and continue from there; returns the position that it covers.

        Raises CorruptBatch if the batches are not those that the index was built from. Entries past the offset
        are not trusted; `scan` checks them against the batches.
        """
        index = sparse.decode(self._files.read_whole(self._index_path) or b"", self.size)
        trusted = index.count_at_most(max(0, offset_max - self.base_offset))
        if trusted:
            last = index.entry(trusted - 1)
            if self._chain_over(index.before(trusted - 1), last.position, verify=False) != last.chain:
                raise CorruptBatch(
                    f"{self.file.path}: the batches before byte {last.position} do not match the index"
                )
        self._unchecked_entries = [index.entry(at) for at in range(len(index) - 1, trusted - 1, -1)]
        index.truncate(trusted)
        self._trim_index_file(index)
        self._adopt(index)
        return self._indexed_at

    def _adopt(self, index: SparseIndex) -> None:
        last = index.last()
        if isinstance(self._index, SavedIndex):
            self._index.close()
        self._index = index
        self._indexed_at = last.position
        self._chain = last.chain
        self.next_offset = self.base_offset + last.offset
        self.max_time_ms = last.time_ms

    def _trim_index_file(self, index: SparseIndex) -> None:
        if not self._files.exists(self._index_path):
            return
        file = self._files.open(self._index_path)
        try:
            if file.size() > index.saved_bytes:
                file.truncate(index.saved_bytes)
            file.sync()  # even if it is short already: an earlier start may have been killed before this sync
        finally:
            file.close()

    def seal(self, next_offset: int) -> None:
        """Set the end to the start of the next segment."""
        self.next_offset = next_offset

    def retire(self) -> None:
        """The segment is closed: release its index if it is saved. The next search opens the file."""
        if isinstance(self._index, SavedIndex):
            self._index.close()
        if not isinstance(self._index, SparseIndex) or not self._index.unsaved:
            self._index = None

    def newest_time_ms(self) -> int:
        """The highest timestamp in the segment."""
        if not self._time_is_known:
            self.max_time_ms = max(self.max_time_ms, self.index.last().time_ms)
            self._time_is_known = True
        return self.max_time_ms

    def save_index(self) -> None:
        """Write the index file, including the closing entry. Not synced: entries have checksums."""
        index = self.index
        if not isinstance(index, SparseIndex):
            return
        if index.last().position != self.size:
            index.add(
                IndexEntry(self.next_offset - self.base_offset, self.size, self.max_time_ms, self._chain)
            )
            self._indexed_at = self.size
        if not index.unsaved:
            return
        file = self._files.open(self._index_path, create=True)
        try:
            if file.size() != index.saved_bytes:
                file.truncate(index.saved_bytes)
            file.append((bytes(index.unsaved),))
            index.unsaved.clear()
        finally:
            file.close()

    def _saved_index(self) -> SavedIndex | None:
        """The index file of a closed segment, if it is complete. Raises TornSegment if it refers to missing records."""
        if not self._files.exists(self._index_path):
            return None
        saved = SavedIndex(self._files.open(self._index_path))
        try:
            last = saved.last()
        except TornSegment:
            last = sparse.START
        if last is sparse.START:
            saved.close()
            return None
        if last.position == self.size and self.base_offset + last.offset == self.next_offset:
            return saved
        saved.close()
        # A shorter index is merely out of date. One that covers the file but not the offsets proves that records at the
        # end are missing; so does a longer one, though only in a compacted segment, where a scan would accept the gap.
        if last.position == self.size or (last.position > self.size and self.is_cleaned):
            raise TornSegment(
                f"{self.file.path}: the index covers {last.position} bytes "
                f"up to offset {self.base_offset + last.offset}, but the file has {self.size} bytes and "
                f"the next segment starts at {self.next_offset}"
            )
        return None

    def rebuild_index(self) -> SparseIndex:
        """Rebuild the index by a scan of the whole segment. Raises TornSegment if it ends before the next one."""
        next_offset, size = self.next_offset, self.size
        rebuilt = SparseIndex()
        self._adopt(rebuilt)
        try:
            self.scan(0, size, REBUILT_INTERVAL_BYTES)
            if self.next_offset != next_offset and not self.is_cleaned:
                raise TornSegment(
                    f"{self.file.path}: records from {self.next_offset} to {next_offset} are missing"
                )
        except (CorruptBatch, TornSegment):
            self._index = None
            raise
        finally:
            self.next_offset, self.size = next_offset, size
        self.save_index_if_possible()
        return rebuilt

    def save_index_if_possible(self) -> bool:
        """Save the index, ignoring disk errors: without the file it is rebuilt at the next start."""
        try:
            self.save_index()
        except (DiskFull, DiskFailed, OutOfDescriptors):
            return False
        return True

    def _entry(self, search: str, value: int) -> IndexEntry | None:
        """Search the index; rebuild it first if its file is damaged."""
        try:
            found: IndexEntry | None = getattr(self.index, search)(value)
        except TornSegment:
            if not isinstance(self._index, SavedIndex):
                raise
            found = getattr(self.rebuild_index(), search)(value)
        return found

    def _floor(self, search: str, value: int) -> IndexEntry:
        return self._entry(search, value) or sparse.START

    # -- reading

    def walk(
        self, position: int, end: int, *, verify: bool, chunk_bytes: int = SCAN_CHUNK_BYTES
    ) -> Iterator[StoredBatch]:
        """The batches from `position` to `end`. Without `verify`, no checksums, and `raw` may be only the header."""
        chunk, chunk_at = memoryview(b""), position
        while position < end:
            at = position - chunk_at
            need = BATCH_HEADER_BYTES
            if len(chunk) - at >= need:
                header = self._header(chunk, at, position, end)
                need = header.size if verify or header.attributes & CONTROL else need
            if len(chunk) - at < need:
                want = max(need, min(chunk_bytes, end - position))
                chunk, chunk_at, at = memoryview(self.file.read(position, want)), position, 0
                header = self._header(chunk, 0, position, end)
                if (verify or header.attributes & CONTROL) and header.size > len(chunk):
                    chunk = memoryview(self.file.read(position, header.size))
            raw = chunk[at : at + header.size]
            if verify and checksum(raw) != header.crc:
                raise CorruptBatch(f"{self.file.path} at byte {position}: checksum mismatch")
            yield StoredBatch(position, header, raw)
            position += header.size

    def _header(self, chunk: memoryview, at: int, position: int, end: int) -> BatchHeader:
        try:
            header = decode_header(chunk, at)
        except CorruptBatch as error:
            raise CorruptBatch(f"{self.file.path} at byte {position}: {error}") from None
        if position + header.size > end:
            raise CorruptBatch(
                f"{self.file.path} at byte {position}: batch size {header.size} exceeds the {end - position} bytes left"
            )
        return header

    def find(self, offset: int, end: int) -> StoredBatch | None:
        """The first batch before `end` that ends after `offset`. Skipped batches are verified too: a bit flip in one
        could hide the right one."""
        start = self._floor("floor", max(0, offset - self.base_offset)).position
        for found in self.walk(start, end, verify=False, chunk_bytes=PEEK_CHUNK_BYTES):
            if found.header.next_offset > offset:
                self.verify(start, found.end - start)
                return found
        self.verify(start, end - start)
        return None

    def find_time(self, time_ms: int, end: int, offset_min: int) -> StoredBatch | None:
        """The first batch before `end` with a record at or after both, with its verified bytes."""
        start = self._floor("before_time", time_ms).position
        for found in self.walk(start, end, verify=False):
            header = found.header
            if header.max_timestamp_ms >= time_ms and header.next_offset > offset_min:
                self.verify(start, found.end - start)
                return StoredBatch(
                    found.position, header, memoryview(self.file.read(found.position, header.size))
                )
        self.verify(start, end - start)
        return None

    def after_damage(self, offset: int) -> int:
        """The offset of the next index entry after damage around `offset`, where reading can continue."""
        relative = max(0, offset - self.base_offset)
        start = self._floor("floor", relative).position
        entry = self._entry("ceil_position", start + 1)
        while entry is not None and entry.offset <= relative:
            entry = self._entry("ceil_position", entry.position + 1)
        return self.next_offset if entry is None else self.base_offset + entry.offset

    def run(self, position: int, bytes_max: int, end: int) -> tuple[int, int | None]:
        """(size of the complete batches from `position` that fit, at least one; the next offset, if known)."""
        if end - position <= bytes_max:
            return end - position, None
        entry = self._floor("floor_position", position + max(0, bytes_max))
        if entry.position > position:
            return entry.position - position, self.base_offset + entry.offset
        length, next_offset = 0, None
        for found in self.walk(position, end, verify=False, chunk_bytes=PEEK_CHUNK_BYTES):
            if length and length + found.header.size > bytes_max:
                break
            length += found.header.size
            next_offset = found.header.next_offset
            if length >= bytes_max:
                break
        return length, next_offset

    # -- verification of data written by earlier processes

    def verify(self, position: int, length: int) -> None:
        """Verify a run of batches once; ranges that were verified or written here are not read again."""
        end = min(position + length, self._written_from)
        if position >= end or self._verified.covers(position, end):
            return
        start = self._floor("floor_position", position)
        closing = self._entry("ceil_position", end) or self.index.last()
        if self._chain_over(start, closing.position, verify=True) != closing.chain:
            raise CorruptBatch(
                f"{self.file.path}: bytes {start.position} to {closing.position} do not match the index checksum"
            )
        self._verified.add(start.position, closing.position)
        assert self._verified.covers(position, end), "data after the last entry was verified by scan"

    def _chain_over(self, start: IndexEntry, end: int, *, verify: bool) -> int:
        chain = start.chain
        for found in self.walk(start.position, end, verify=verify):
            chain = crc32(found.raw[:CHAINED_BYTES], chain)
        return chain

    # -- closing

    def sync(self) -> None:
        """Make data and index durable, for a segment that belongs to no log."""
        self.save_index()
        self.file.sync()
        index_file = self._files.open(self._index_path, create=True)
        try:
            index_file.sync()
        finally:
            index_file.close()

    def closing_chain(self) -> int:
        """The chain over all batches when the segment was closed."""
        return self.index.last().chain

    def close(self) -> None:
        self.file.close()
        if isinstance(self._index, SavedIndex):
            self._index.close()
            self._index = None

    def remove(self) -> None:
        """Remove both files. Readers that pinned the data can still read it."""
        self.close()
        self._files.remove(self.file.path)
        self._files.remove(self._index_path)
