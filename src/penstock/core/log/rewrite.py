"""Log compaction, the worker's side: reads closed segments and writes compacted ones beside them. Never touches a live
file.

Retains the last record of each key before the plan's end. Offsets and order never change; batches that lose no record
are copied byte for byte. The key map is bounded: when it is full, the rest waits for the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from zlib import crc32

from penstock.core.errors import CorruptBatch
from penstock.core.log import swap
from penstock.core.log.compaction import Plan, Result, SourceSegment
from penstock.core.log.compaction_filter import BatchOutcome, Filter, open_spans
from penstock.core.log.index import CHAINED_BYTES
from penstock.core.log.log import OFFSET_SPAN_MAX
from penstock.core.log.segment import Segment, StoredBatch
from penstock.core.log.swap import CLEANED_SUFFIX, Swap
from penstock.core.ports import Files
from penstock.core.records.batch import decode_header
from penstock.core.records.payload import RecordSpan

KEYS_MAX = 250_000
"""Keys in the map of one round: about 40 MB. More keys take more rounds."""
DIGEST_BYTES = 16
_CONTROL_KEY = Struct(">hh")
_COMMIT = 1

Report = Callable[[str], None]


def digest_of(key: bytes) -> bytes:
    """The map's entry for a key: the key itself if it is short, else a collision-resistant digest."""
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()


def rewrite(files: Files, plan: Plan, report: Report, keys_max: int = KEYS_MAX) -> Result:
    """Write and sync the compacted segments of a plan, overwriting the leftovers of an earlier rewrite."""
    swap.discard(files, plan.directory)
    latest, map_end, first_dirty = _last_offsets(files, plan, keys_max, report)
    decide = Filter(latest, map_end, plan, digest_of)
    swaps: list[Swap] = []
    bytes_before = bytes_after = 0
    for group in _groups(plan, map_end):
        try:
            written = _rewrite_group(files, plan, group, decide)
        except CorruptBatch as error:
            report(f"segments {group[0].base_offset} to {group[-1].base_offset} left unchanged: {error}")
            written = None
        bytes_before += sum(source.size for source in group)
        if written is None:
            bytes_after += sum(source.size for source in group)
        else:
            bytes_after += written
            swaps.append(Swap(group[0].base_offset, group[-1].next_offset))
    if swaps:
        files.sync_dir(plan.directory)
    if decide.keyless_dropped:
        report(
            f"{plan.directory}: dropped {decide.keyless_dropped} records without a key, which compaction cannot retain"
        )
    return Result(
        tuple(swaps), first_dirty, decide.dropped, decide.keyless_dropped, bytes_before, bytes_after
    )


# -- the last record of each key


def _last_offsets(
    files: Files, plan: Plan, keys_max: int, report: Report
) -> tuple[dict[bytes, int], int, int]:
    """(key to its last offset, the end of the range that the map covers, the start of the next round)."""
    latest: dict[bytes, int] = {}
    undecided: dict[int, list[tuple[bytes, int]]] = {}
    map_end = plan.end_offset
    held = 0
    dirty = [source for source in plan.sources if source.next_offset > plan.first_dirty]
    for found in _readable_batches(files, plan, dirty, report):
        header = found.header
        if header.next_offset <= plan.first_dirty:
            continue
        if held and held + header.count > keys_max:
            map_end = header.base_offset
            break
        opened = open_spans(found)
        if isinstance(opened, str):
            report(f"batch at offset {header.base_offset} left unchanged: {opened}")
        elif header.is_control:
            _decide_transaction(opened[1], header.producer_id, undecided, latest)
        else:
            keyed = [one for one in opened[1] if one.key is not None]
            pairs = [(digest_of(one.key or b""), header.base_offset + one.offset_delta) for one in keyed]
            if header.is_transactional:
                undecided.setdefault(header.producer_id, []).extend(pairs)
            else:
                latest.update(pairs)
        held = len(latest) + sum(map(len, undecided.values()))
    first_undecided = min((pairs[0][1] for pairs in undecided.values() if pairs), default=map_end)
    return latest, map_end, first_undecided if first_undecided > plan.first_dirty else map_end


def _decide_transaction(
    spans: Sequence[RecordSpan],
    producer_id: int,
    undecided: dict[int, list[tuple[bytes, int]]],
    latest: dict[bytes, int],
) -> None:
    """Records of a committed transaction enter the map; those of an aborted one must not shadow older records."""
    pairs = undecided.pop(producer_id, [])
    for span in spans:
        is_commit = (
            span.key is not None and len(span.key) >= 4 and _CONTROL_KEY.unpack_from(span.key)[1] == _COMMIT
        )
        if is_commit:
            for digest, offset in pairs:
                latest[digest] = max(offset, latest.get(digest, -1))


# -- reading and writing segments


def _groups(plan: Plan, map_end: int) -> Iterator[list[SourceSegment]]:
    """Runs of adjacent segments that fit into one."""
    group: list[SourceSegment] = []
    for source in plan.sources:
        if source.base_offset >= map_end:
            break
        if group and (
            sum(one.size for one in group) + source.size > plan.segment_bytes
            or source.next_offset - group[0].base_offset > OFFSET_SPAN_MAX
        ):
            yield group
            group = []
        group.append(source)
    if group:
        yield group


def _readable_batches(
    files: Files, plan: Plan, sources: Sequence[SourceSegment], report: Report
) -> Iterator[StoredBatch]:
    """The same without damaged segments: a wrong offset would shadow later records of a key.

    A damaged segment shadows nothing and is left unchanged. Verifying it first costs a second read.
    """
    for source in sources:
        try:
            for _ in _batches(files, plan, [source]):
                pass
        except CorruptBatch as error:
            report(f"segment {source.base_offset} is damaged and left unchanged: {error}")
            continue
        yield from _batches(files, plan, [source])


def _batches(files: Files, plan: Plan, sources: Sequence[SourceSegment]) -> Iterator[StoredBatch]:
    """Every batch of the segments, verified, including that each segment is unchanged since it was closed."""
    for source in sources:
        segment = Segment(files, plan.directory, source.base_offset, create=False)
        try:
            segment.is_cleaned = source.is_cleaned
            segment.seal(source.next_offset)
            closing_chain = segment.closing_chain()
            chain = 0
            for found in segment.walk(0, source.size, verify=True):
                chain = crc32(found.raw[:CHAINED_BYTES], chain)
                yield found
            if chain != closing_chain:
                raise CorruptBatch(f"{segment.file.path}: the batches do not match the index checksum")
        finally:
            segment.close()


def _rewrite_group(files: Files, plan: Plan, group: list[SourceSegment], decide: Filter) -> int | None:
    """The size of the new segment, or None if rewriting removes nothing."""
    writer = Segment(files, plan.directory, group[0].base_offset, create=True, suffix=CLEANED_SUFFIX)
    has_changed = len(group) > 1
    is_whole = False
    try:
        for found in _batches(files, plan, group):
            outcome, batch = decide.filter(found)
            has_changed = has_changed or outcome is not BatchOutcome.UNCHANGED
            if outcome is not BatchOutcome.DROPPED:
                header = found.header if outcome is BatchOutcome.UNCHANGED else decode_header(batch)
                writer.append(batch, header, header.base_offset, plan.index_interval_bytes)
        is_whole = True
        if has_changed:
            writer.seal(group[-1].next_offset)
            writer.sync()
            return writer.size
    finally:
        writer.close()
        if not is_whole:
            writer.remove()
    writer.remove()
    return None
