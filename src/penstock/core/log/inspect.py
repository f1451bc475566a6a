"""Offline inspection of a log: verifies and dumps it. Read-only, and continues past damage."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice, zip_longest
from typing import NamedTuple
from zlib import crc32

from penstock.core.errors import CorruptBatch, TornSegment
from penstock.core.log import checksummed_file, cleaner_state, epochs, index
from penstock.core.log.index import CHAINED_BYTES, ENTRY_BYTES, IndexEntry
from penstock.core.log.log import START_FILE
from penstock.core.log.producers import SNAPSHOT_SUFFIX
from penstock.core.log.segment import INDEX_SUFFIX, Segment, StoredBatch, name_of, segment_bases
from penstock.core.model import NO_EPOCH, NO_TIMESTAMP, Record
from penstock.core.ports import Files
from penstock.core.records.batch import BatchHeader
from penstock.core.records.portion import find_fault, take_all


class Severity(StrEnum):
    """Severity of a finding."""

    DAMAGED = "damaged"
    """Records are lost or changed."""
    REBUILT = "rebuilt"
    """No data is lost: the broker rebuilds it from the batches."""
    NOTE = "note"
    """For information only."""


class Finding(NamedTuple):
    """One problem that verification found."""

    severity: Severity
    path: str
    message: str


class Dumped(NamedTuple):
    """One batch, with its records if requested, or the error that makes it unreadable."""

    path: str
    position: int
    header: BatchHeader | None
    records: list[Record] | None = None
    error: str | None = None


def dump(
    files: Files, directory: str, *, start_offset: int = 0, with_records: bool = False
) -> Iterator[Dumped]:
    """Every batch that ends after `start_offset`, damaged ones included. If damage hides the next batch, the dump
    continues with the next segment."""
    bases = segment_bases(files, directory)
    for base, next_base in zip_longest(bases, bases[1:]):
        if next_base is not None and next_base <= start_offset:
            continue
        segment = Segment(files, directory, base, create=False)
        try:
            yield from _dump_segment(segment, start_offset, with_records)
        finally:
            segment.close()


def _dump_segment(segment: Segment, start_offset: int, with_records: bool) -> Iterator[Dumped]:
    position: int | None = 0
    while position is not None:
        try:
            for found in segment.walk(position, segment.size, verify=True):
                position = found.end
                if found.header.next_offset > start_offset:
                    yield _dumped(segment, found, with_records)
            return
        except CorruptBatch as error:
            yield Dumped(segment.file.path, position, None, error=str(error))
            position = _behind_damage(segment, position)


def _behind_damage(segment: Segment, position: int) -> int | None:
    """The position after a damaged batch, if the lengths of both batches are plausible."""
    try:
        damaged, behind = islice(segment.walk(position, segment.size, verify=False), 2)
    except (CorruptBatch, ValueError):
        return None
    return damaged.end if behind.header.base_offset == damaged.header.next_offset else None


def _dumped(segment: Segment, found: StoredBatch, with_records: bool) -> Dumped:
    path, header = segment.file.path, found.header
    if not with_records:
        return Dumped(path, found.position, header)
    taken = take_all(found.raw, header)
    return Dumped(path, found.position, header, taken.records, _unreadable(header, taken.failure))


def _unreadable(header: BatchHeader, fault: CorruptBatch | None) -> str | None:
    if fault is None:
        return None
    return f"offsets {header.base_offset} to {header.last_offset} cannot be read: {fault}"


def verify(files: Files, directory: str) -> Iterator[Finding]:
    """All offline checks. Without a finding of severity `damaged` the log is intact."""
    states: list[Finding] = []
    gaps_before = cleaner_state.read(files, directory, lambda _: None).gaps_before
    bases = segment_bases(files, directory)
    for base, next_base in zip_longest(bases, bases[1:]):
        yield from _verify_segment(files, directory, base, next_base, is_cleaned=base < gaps_before)
    for name in files.names(directory):
        path = f"{directory}/{name}"
        if name.endswith(SNAPSHOT_SUFFIX) or name in (epochs.FILE_NAME, START_FILE, cleaner_state.FILE_NAME):
            states += _verify_state(files, path)
        elif name.endswith((".cut", ".cleaned", ".swap", ".tmp")):
            states.append(Finding(Severity.NOTE, path, "leftover file; the broker does not read it"))
    yield from states


def _verify_state(files: Files, path: str) -> list[Finding]:
    try:
        checksummed_file.read(files, path)
    except TornSegment as torn:
        is_start = path.endswith(START_FILE)
        why = "; deleted records in the first segment may reappear" if is_start else ""
        return [Finding(Severity.REBUILT, path, f"{torn}{why}")]
    return []


def _verify_segment(
    files: Files, directory: str, base: int, next_base: int | None, *, is_cleaned: bool
) -> Iterator[Finding]:
    segment = Segment(files, directory, base, create=False)
    segment.is_cleaned = is_cleaned
    path = segment.file.path
    entries = _entries(files, directory, base)
    wanted = {entry.position for entry in entries if entry is not None}
    boundaries = {0: index.START}
    state = index.START
    epoch, next_offset = NO_EPOCH, base
    try:
        for found in segment.walk(0, segment.size, verify=True):
            yield from _verify_order(path, found, next_offset, epoch, is_cleaned)
            unreadable = _unreadable(found.header, find_fault(found.raw, found.header))
            if unreadable is not None:
                yield Finding(Severity.DAMAGED, path, unreadable)
            next_offset, epoch = found.header.next_offset, found.header.leader_epoch
            state = _behind(state, found, base)
            if state.position in wanted:
                boundaries[state.position] = state
    except CorruptBatch as error:
        yield Finding(Severity.DAMAGED, path, str(error))
    finally:
        segment.close()
    if (
        next_base is not None
        and next_offset != next_base
        and not is_cleaned
        and state.position == segment.size
    ):
        yield Finding(
            Severity.DAMAGED, path, f"ends at offset {next_offset}, the next segment starts at {next_base}"
        )
    index_path = f"{directory}/{name_of(base, INDEX_SUFFIX)}"
    yield from _verify_index(index_path, entries, boundaries, segment.size, is_closed=next_base is not None)


def _verify_order(
    path: str, found: StoredBatch, next_offset: int, epoch: int, is_cleaned: bool
) -> Iterator[Finding]:
    offset = found.header.base_offset
    if offset < next_offset or (offset > next_offset and not is_cleaned):
        yield Finding(
            Severity.DAMAGED, path, f"at byte {found.position}: got offset {offset}, expected {next_offset}"
        )
    if found.header.leader_epoch < epoch:
        yield Finding(
            Severity.DAMAGED, path, f"at byte {found.position}: the leader epoch decreases from {epoch}"
        )


def _behind(state: IndexEntry, found: StoredBatch, base: int) -> IndexEntry:
    """The expected index entry for the position after a batch."""
    return IndexEntry(
        found.header.next_offset - base,
        found.end,
        max(state.time_ms, found.header.max_timestamp_ms, NO_TIMESTAMP),
        crc32(found.raw[:CHAINED_BYTES], state.chain),
    )


def _entries(files: Files, directory: str, base: int) -> list[IndexEntry | None]:
    """The entries of the index file; None for an entry whose checksum does not match."""
    content = files.read_whole(f"{directory}/{name_of(base, INDEX_SUFFIX)}") or b""
    return [index.decode_entry(content[at : at + ENTRY_BYTES]) for at in range(0, len(content), ENTRY_BYTES)]


def _verify_index(
    path: str, entries: list[IndexEntry | None], found: dict[int, IndexEntry], size: int, *, is_closed: bool
) -> Iterator[Finding]:
    """Compare the entries with the batches at their positions; only the first mismatch is reported."""
    last_position = 0
    for number, entry in enumerate(entries):
        if entry is None:
            yield Finding(Severity.REBUILT, path, f"entry {number} does not match its checksum")
            continue
        last_position = entry.position
        actual = found.get(entry.position)
        if actual is None:
            words = (
                f"knows of byte {entry.position}, where no batch starts or ends; the segment has {size} bytes"
            )
            yield Finding(Severity.DAMAGED, path, words)
            return
        if (entry.chain, entry.time_ms) != (actual.chain, actual.time_ms) or entry.offset < actual.offset:
            words = f"the batches before byte {entry.position} are not those it was made from"
            yield Finding(Severity.DAMAGED, path, words)
            return
    if is_closed and last_position != size:
        yield Finding(Severity.REBUILT, path, f"covers {last_position} of {size} bytes")
