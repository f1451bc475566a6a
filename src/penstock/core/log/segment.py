"""One segment: a data file and its sparse index. Never decides when to roll; log.py does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.core.errors import CorruptBatch
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log import index as sparse
from penstock.core.log.index import SparseIndex
from penstock.core.model import NO_TIMESTAMP
from penstock.core.ports import File, Files
from penstock.core.records.batch import BatchHeader, check, decode_header

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
SCAN_CHUNK_BYTES = 1 << 20
PEEK_CHUNK_BYTES = 1 << 14


class Slice(NamedTuple):
    """A run of whole batches inside one file, to be sent without reading it."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)


class Found(NamedTuple):
    """One batch met while walking a segment."""

    position: int
    header: BatchHeader
    raw: memoryview

    @property
    def end(self) -> int:
        return self.position + self.header.size


def name_of(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    """Batches from `base_offset` up to `next_offset`, `size` bytes long."""

    __slots__ = (
        "_directory", "_files", "_index", "_indexed_at", "_verified",
        "base_offset", "file", "first_time_ms", "max_time_ms", "next_offset", "size",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, base_offset: int, *, create: bool) -> None:
        self._files = files
        self._directory = directory
        self.base_offset = base_offset
        self.file = files.open(f"{directory}/{name_of(base_offset, LOG_SUFFIX)}", create=create)
        self.size = self.file.size()
        self.next_offset = base_offset
        self.max_time_ms = NO_TIMESTAMP
        self.first_time_ms = NO_TIMESTAMP
        self._index: SparseIndex | None = SparseIndex() if create else None
        self._indexed_at = 0
        self._verified: list[tuple[int, int]] = []

    # -- writing

    def append(self, batch: bytes | bytearray | memoryview, header: BatchHeader, base_offset: int, interval: int) -> None:
        """Write a stamped batch at the end. `header` may still carry the producer's own base offset."""
        position = self.size
        self.file.append((batch,))
        self.note(position, header, base_offset, interval)
        verified = self._verified
        if verified and verified[-1][1] == position:
            verified[-1] = (verified[-1][0], self.size)
        else:
            verified.append((position, self.size))

    def note(self, position: int, header: BatchHeader, base_offset: int, interval: int) -> None:
        """Take a batch that now stands at `position` into the index and the counts."""
        if position - self._indexed_at >= interval:
            index = self._index
            assert index is not None
            index.add(base_offset - self.base_offset, position, self.max_time_ms)
            self._indexed_at = position
        if header.max_timestamp_ms > self.max_time_ms:
            self.max_time_ms = header.max_timestamp_ms
        if position == 0:
            self.first_time_ms = header.max_timestamp_ms
        self.size = position + header.length + 12
        self.next_offset = base_offset + header.last_offset_delta + 1

    def truncate(self, position: int) -> None:
        """Cut the file at a batch boundary; the caller rebuilds the counts by `adopt` and `note`."""
        self.file.truncate(position)
        self.size = position
        self._verified = [(lo, min(hi, position)) for lo, hi in self._verified if lo < position]
        if self._index is not None:
            self._index.cut(position)

    def keep_aside(self, path: str, content: bytes) -> None:
        """Save bytes that are about to be cut."""
        self._files.write_whole(path, content)

    # -- the index

    @property
    def index(self) -> SparseIndex:
        """The index, read from its file on first use and rebuilt from the batches where the file is wanting."""
        if self._index is None:
            self._index = self.load_index()
            if self._index.last()[1] != self.size:
                self._rebuild()
        return self._index

    def load_index(self) -> SparseIndex:
        return sparse.decode(self._files.read_whole(self._index_path) or b"", self.size)

    def adopt(self, index: SparseIndex) -> int:
        """Take over an index that covers the segment up to its last entry; returns that position."""
        offset, position, time_ms = index.last()
        self._index = index
        self._indexed_at = position
        self.next_offset = self.base_offset + offset
        self.max_time_ms = time_ms
        return position

    def seal(self, next_offset: int) -> None:
        """This segment ends where the next one starts. Its index is read only when somebody needs it."""
        self.next_offset = next_offset

    def newest_time_ms(self) -> int:
        """The highest timestamp in the segment."""
        if self._index is None and self._peek_time() is None:
            self.max_time_ms = max(self.max_time_ms, self.index.last()[2])
        return self.max_time_ms

    def _peek_time(self) -> int | None:
        """The highest timestamp from the closing entry of the index file alone."""
        if not self._files.exists(self._index_path):
            return None
        file = self._files.open(self._index_path)
        try:
            entry = sparse.decode_entry(file.read(max(0, file.size() - sparse.ENTRY_BYTES), sparse.ENTRY_BYTES))
        finally:
            file.close()
        if entry is None or entry[1] != self.size:
            return None
        self.max_time_ms = entry[2]
        return self.max_time_ms

    def save_index(self) -> None:
        """Bring the index file up to date, with a closing entry for the end of the data. Not synced: it is checkable."""
        index = self.index
        if index.last()[1] != self.size:
            index.add(self.next_offset - self.base_offset, self.size, self.max_time_ms)
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

    def _rebuild(self) -> None:
        """Walk what the index does not cover. The walk proves checksums, so the walked part counts as verified."""
        index = self._index
        assert index is not None
        next_offset, start = self.next_offset, self.adopt(index)
        for found in self.walk(start, self.size, prove=True):
            self.note(found.position, found.header, found.header.base_offset, PEEK_CHUNK_BYTES // 4)
        self.next_offset = max(self.next_offset, next_offset)
        self.mark_verified(start, self.size)

    @property
    def _index_path(self) -> str:
        return f"{self._directory}/{name_of(self.base_offset, INDEX_SUFFIX)}"

    # -- reading

    def walk(self, position: int, end: int, *, prove: bool, chunk_bytes: int = SCAN_CHUNK_BYTES) -> Iterator[Found]:
        """The batches from `position` to `end`. With `prove`, each checksum; without, `raw` may be just the header."""
        chunk, chunk_at = memoryview(b""), position
        while position < end:
            at = position - chunk_at
            need = BATCH_HEADER_BYTES
            if len(chunk) - at >= need:
                header = self._header(chunk, at, position, end)
                need = header.size if prove else need
            if len(chunk) - at < need:
                chunk, chunk_at, at = memoryview(self.file.read(position, max(need, min(chunk_bytes, end - position)))), position, 0
                header = self._header(chunk, 0, position, end)
                if prove and header.size > len(chunk):
                    chunk = memoryview(self.file.read(position, header.size))
            raw = chunk[at : at + header.size]
            if prove:
                self._prove(raw, position)
            yield Found(position, header, raw)
            position += header.size

    def _header(self, chunk: memoryview, at: int, position: int, end: int) -> BatchHeader:
        try:
            header = decode_header(chunk, at)
        except CorruptBatch as error:
            raise CorruptBatch(f"{self.file.path} at byte {position}: {error}") from None
        if position + header.size > end:
            raise CorruptBatch(
                f"{self.file.path} at byte {position}: a batch of {header.size} bytes, {end - position} are left"
            )
        return header

    def _prove(self, raw: memoryview, position: int) -> None:
        try:
            check(raw)
        except CorruptBatch as error:
            raise CorruptBatch(f"{self.file.path} at byte {position}: {error}") from None

    def find(self, offset: int, end: int) -> Found | None:
        """The first batch before `end` that reaches `offset`."""
        start = self.index.floor(max(0, offset - self.base_offset))
        for found in self.walk(start, end, prove=False, chunk_bytes=PEEK_CHUNK_BYTES):
            if found.header.next_offset > offset:
                return found
        return None

    def find_time(self, time_ms: int, end: int) -> Found | None:
        """The first batch before `end` that holds a record at or after `time_ms`, with its bytes."""
        for found in self.walk(self.index.before_time(time_ms), end, prove=False):
            if found.header.max_timestamp_ms >= time_ms:
                return Found(found.position, found.header, memoryview(self.file.read(found.position, found.header.size)))
        return None

    def run(self, position: int, bytes_max: int, end: int) -> tuple[int, int | None]:
        """Bytes of the whole batches from `position` that fit `bytes_max`, at least the first; and the offset behind them, if known."""
        if end - position <= bytes_max:
            return end - position, None
        entry = self.index.floor_entry(position + bytes_max)
        if entry is not None and entry[1] > position:
            return entry[1] - position, self.base_offset + entry[0]
        length, next_offset = 0, None
        for found in self.walk(position, end, prove=False, chunk_bytes=PEEK_CHUNK_BYTES):
            if length and length + found.header.size > bytes_max:
                break
            length += found.header.size
            next_offset = found.header.next_offset
            if length >= bytes_max:
                break
        return length, next_offset

    # -- proof of what was there before this process

    def verify(self, position: int, length: int) -> None:
        """Prove the checksums of a run of batches once; what was proven or written here is not read again."""
        end = position + length
        for lo, hi in self._verified:
            if lo <= position and end <= hi:
                return
        for found in self.walk(position, end, prove=True):
            if found.header.base_offset < self.base_offset or found.header.next_offset > self.next_offset:
                raise CorruptBatch(f"{self.file.path} at byte {found.position}: offset {found.header.base_offset} is not of this segment")
        self.mark_verified(position, end)

    def mark_verified(self, position: int, end: int) -> None:
        """Merge a proven range into what is known."""
        merged: list[tuple[int, int]] = []
        for lo, hi in sorted([*self._verified, (position, end)]):
            if merged and lo <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], hi))
            else:
                merged.append((lo, hi))
        self._verified = merged

    # -- the end

    def close(self) -> None:
        self.file.close()

    def remove(self) -> None:
        """Take both files away. Readers that pinned the data keep it."""
        self.file.close()
        self._files.remove(f"{self._directory}/{name_of(self.base_offset, LOG_SUFFIX)}")
        self._files.remove(self._index_path)
