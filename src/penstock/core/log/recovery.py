"""Opens a log: trusts data before the recovery point, verifies the rest and truncates a torn tail.

Everything before the recovery point was on stable storage when it was recorded. If the log ends earlier, acknowledged
data is lost and the log refuses to open, because a shorter log must never pass for the complete one. Nothing in an
opened log is visible until its owner sets a high watermark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from operator import itemgetter

from penstock.core.errors import CorruptBatch, TornSegment
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log import cleaner_state, swap
from penstock.core.log.index import SavedIndex
from penstock.core.log.log import BatchBoundary, Log, LogLimits
from penstock.core.log.segment import INDEX_SUFFIX, LOG_SUFFIX, Segment, name_of, segment_bases
from penstock.core.model import NO_EPOCH
from penstock.core.ports import Files
from penstock.core.records.batch import MAGIC, MAGIC_AT, check, size_at

Report = Callable[[str], None]
CUT_SUFFIX = ".cut"
SALVAGE_BYTES_MAX = 64 << 20
"""How far after a tear recovery searches for complete batches."""


def open_log(
    files: Files,
    directory: str,
    limits: LogLimits,
    *,
    recovery_offset: int,
    now_ms: int,
    report: Report,
    refuses_damage: bool = False,
) -> Log:
    """Open or create the log in `directory`.

    `refuses_damage`: complete batches after a tear count as damage: the log refuses to open, and no batch is cut off.
    For owners that flush every batch before they write the next, so that a crash can tear only the last one; and for a
    replica while others may have what is missing: a shorter log must not pass for a complete one.
    """
    swap.settle(files, directory, report)
    log = Log(files, directory, limits)
    log.gaps_before = gaps_before = cleaner_state.read(files, directory, report).gaps_before
    bases = segment_bases(files, directory)
    for at, base in enumerate(bases):
        segment = Segment(files, directory, base, create=False)
        segment.is_cleaned = base < gaps_before
        next_base = bases[at + 1] if at + 1 < len(bases) else None
        log.adopt(segment)
        if next_base is not None and next_base <= recovery_offset:
            # Entirely before the recovery point, hence durable: it is verified when it is first read.
            segment.seal(next_base)
            if refuses_damage:
                _check_length(files, directory, segment)
        elif not _recover_segment(log, segment, recovery_offset, next_base, report, refuses_damage):
            _set_aside(files, directory, bases[at + 1 :], report)
            break
    _settle(log, recovery_offset, now_ms, report)
    return log


def _check_length(files: Files, directory: str, segment: Segment) -> None:
    """Raise TornSegment if a closed segment is shorter than its index says. Reads no batches."""
    path = f"{directory}/{name_of(segment.base_offset, INDEX_SUFFIX)}"
    if not files.exists(path):
        return
    saved = SavedIndex(files.open(path))
    try:
        last = saved.last()
    except TornSegment:  # a damaged index is rebuilt from the batches
        return
    finally:
        saved.close()
    if last.position > segment.size:
        raise TornSegment(
            f"{segment.file.path}: the index covers {last.position} bytes, but the file has {segment.size}"
        )


def _recover_segment(
    log: Log,
    segment: Segment,
    recovery_offset: int,
    next_base: int | None,
    report: Report,
    refuses_damage: bool,
) -> bool:
    """Verify everything after the recovery point; False if a tear was truncated, which ends the log here."""
    size = segment.size
    start = segment.resume(recovery_offset)
    # Bytes that an earlier process wrote without a sync may exist only in the page cache.
    if size > start:
        log.mark_dirty(segment)
    elif not size:
        log.mark_names_dirty()
    try:
        segment.scan(start, size, log.limits.index_interval_bytes)
        if next_base is not None and segment.next_offset != next_base and not segment.is_cleaned:
            raise CorruptBatch(
                f"{segment.file.path} ends at offset {segment.next_offset}, but the next segment starts at {next_base}"
            )
    except CorruptBatch as tear:
        # Before the recovery point a tear is lost durable data, which no truncation may hide.
        if segment.next_offset < recovery_offset:
            raise
        if refuses_damage and (next_base is not None or _holds_whole_batch(_tail_of(segment))):
            raise TornSegment(
                f"{tear}; complete batches follow, so the file is damaged: restore it"
            ) from None
        log.mark_dirty(segment)
        _cut(segment, str(tear), report)
        return False
    _load_first_time(segment)
    if next_base is not None:
        segment.seal(next_base)
        segment.save_index_if_possible()
        segment.retire()
    return True


def _cut(segment: Segment, why: str, report: Report) -> None:
    """Truncate everything after the verified part. If complete batches follow, save a copy for inspection."""
    position = segment.size
    length = segment.file.size() - position
    tail = _tail_of(segment)
    message = f"truncated {length} bytes after offset {segment.next_offset} ({why})"
    if _holds_whole_batch(tail):
        saved_path = f"{segment.file.path}.{position}{CUT_SUFFIX}"
        segment.save_copy(saved_path, tail)
        message += f"; complete batches after the tear were copied to {saved_path}"
    segment.truncate(position)
    report(message)


def _tail_of(segment: Segment) -> bytes:
    """The bytes after the verified part."""
    return segment.file.read(segment.size, min(segment.file.size() - segment.size, SALVAGE_BYTES_MAX))


def _holds_whole_batch(tail: bytes) -> bool:
    """Whether a batch with a valid checksum starts anywhere in `tail`."""
    at = tail.find(bytes([MAGIC]), MAGIC_AT)
    while at >= 0:
        start = at - MAGIC_AT
        if len(tail) - start >= BATCH_HEADER_BYTES:
            size = size_at(tail, start)
            if BATCH_HEADER_BYTES <= size <= len(tail) - start and _is_whole(tail[start : start + size]):
                return True
        at = tail.find(bytes([MAGIC]), at + 1)
    return False


def _is_whole(candidate: bytes) -> bool:
    try:
        check(candidate)
    except CorruptBatch:
        return False
    return True


def _set_aside(files: Files, directory: str, bases: list[int], report: Report) -> None:
    """Segments after a tear are unreachable: rename them instead of deleting data."""
    for base in bases:
        path = f"{directory}/{name_of(base, LOG_SUFFIX)}"
        saved_path = path + CUT_SUFFIX
        while files.exists(saved_path):
            saved_path += CUT_SUFFIX
        files.rename(path, saved_path)
        files.remove(f"{directory}/{name_of(base, INDEX_SUFFIX)}")
        report(f"set aside {saved_path}: it lies after a torn batch")


def _load_first_time(segment: Segment) -> None:
    for found in segment.walk(0, segment.size, verify=False, chunk_bytes=BATCH_HEADER_BYTES):
        segment.first_time_ms = found.header.max_timestamp_ms
        break


def _settle(log: Log, recovery_offset: int, now_ms: int, report: Report) -> None:
    """Derive start, end, epochs and producers from the segments; reject a log that lost durable data."""
    last = log.segments[-1] if log.segments else None
    log.end_offset = 0 if last is None else last.next_offset
    if log.end_offset < recovery_offset:
        raise TornSegment(
            f"{log.directory}: records up to offset {recovery_offset} were durable, "
            f"but the log ends at {log.end_offset}; "
            "restore the missing files or delete the topic"
        )
    first = log.segments[0].base_offset if log.segments else 0
    stored = _stored_start(log, report)
    if stored > log.end_offset:  # left in its file, it would hide new records that reuse these offsets
        report(f"records were deleted up to offset {stored}, but the log ends at {log.end_offset}")
        log.persist_start(log.end_offset)
    log.start_offset = min(max(first, stored), log.end_offset)
    # Recovered records may exceed what was committed, so nothing is visible until the owner advances the watermark.
    log.high_watermark = log.start_offset
    log.high_watermark_mark = BatchBoundary(log.start_offset, first, 0)
    log.synced_offset = recovery_offset if log.is_dirty else log.end_offset
    _load_epochs(log, recovery_offset, report)
    log.rebuild_producers(now_ms)
    if last is not None:
        log.settle_age(now_ms)


def _stored_start(log: Log, report: Report) -> int:
    try:
        return int(log.read_start() or 0)
    except TornSegment as torn:
        report(f"{torn}; starting at the first segment")
        return 0


def _load_epochs(log: Log, recovery_offset: int, report: Report) -> None:
    """Load epochs from their file, checked against the batches; rebuild them from the batches if they differ."""
    try:
        known = log.epochs.load()
    except TornSegment as torn:
        report(f"{torn}; rebuilding it from the batches")
        known = False
    log.epochs.cut_end(log.end_offset)
    if not known or not _epochs_agree(log, recovery_offset):
        log.epochs.clear()
        for segment in log.segments:
            for epoch, offset in _epoch_starts(log, segment):
                _observe_epoch(log, epoch, offset)
    log.epochs.cut_start(log.start_offset)


def _epoch_starts(log: Log, segment: Segment) -> Iterable[tuple[int, int]]:
    """Each epoch of the records in this segment with the offset where it begins, at least once."""
    if segment.next_offset <= log.start_offset:
        return ()
    scanned = segment.epoch_starts
    if scanned and scanned[0][1] == segment.base_offset:
        # The scan covered the whole segment. Reading it again would lengthen each start after a crash.
        current = bisect_right(scanned, log.start_offset, key=itemgetter(1)) - 1
        return scanned[max(0, current) :]
    headers = (found.header for found in log.headers_of(segment, log.start_offset))
    return ((header.leader_epoch, header.base_offset) for header in headers)


def _observe_epoch(log: Log, epoch: int, offset: int) -> None:
    """A batch's checksum does not cover its epoch: if epochs decrease, this batch or the one before is damaged."""
    latest = log.epochs.latest
    if epoch < latest:
        raise TornSegment(
            f"{log.directory}: the batch at offset {offset} has leader epoch {epoch}, a batch before it {latest}: "
            "one of them is damaged; restore the file or delete the topic"
        )
    log.epochs.observe(epoch, log.start_offset if latest == NO_EPOCH else offset)


def _epochs_agree(log: Log, recovery_offset: int) -> bool:
    """Compare the epochs with the batches from the recovery point on; add those that are missing from the file."""
    known = log.epochs
    if log.end_offset > log.start_offset and known.at_offset(log.start_offset) == NO_EPOCH:
        return False
    for found in log.headers_from(max(log.start_offset, min(recovery_offset, log.end_offset) - 1)):
        header = found.header
        if known.at_offset(max(log.start_offset, header.base_offset)) != header.leader_epoch:
            return False
        break
    for epoch, offset in [start for segment in log.segments for start in segment.epoch_starts]:
        if offset >= recovery_offset:
            known.observe(epoch, offset)
        if offset >= log.start_offset and known.at_offset(offset) != epoch:
            return False
    return True
