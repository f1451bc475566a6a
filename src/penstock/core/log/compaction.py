"""Log compaction, the owner's side: selects segments and installs the compacted ones. Never reads a record.

A round is three calls: the log's owner calls `choose` and `install`, which are quick; `rewrite.rewrite` runs between
them in a worker thread and reads only files that no longer change.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log import cleaner_state, swap
from penstock.core.log.cleaner_state import CleanerState
from penstock.core.log.log import Log
from penstock.core.log.segment import Segment
from penstock.core.log.swap import Swap
from penstock.core.model import NO_TIMESTAMP
from penstock.core.ports import Files


class CompactionConfig(Protocol):
    """The topic settings that compaction uses."""

    @property
    def dirty_ratio_min(self) -> float: ...
    @property
    def compaction_lag_ms_min(self) -> int: ...
    @property
    def compaction_lag_ms_max(self) -> int: ...
    @property
    def delete_retention_ms(self) -> int: ...
    @property
    def segment_bytes(self) -> int: ...
    @property
    def index_interval_bytes(self) -> int: ...


class SourceSegment(NamedTuple):
    """A closed segment, as the rewriting thread needs it."""

    base_offset: int
    next_offset: int
    size: int
    is_cleaned: bool


class Plan(NamedTuple):
    """What to compact. Holds copies only, so that it stays valid while the log is appended to."""

    directory: str
    sources: tuple[SourceSegment, ...]
    start_offset: int
    first_dirty: int
    end_offset: int
    """Records from this offset on stay unchanged."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    last_of_producers: dict[int, int]
    """Producer id to the last offset of its last batch, which is retained, even if empty, for its sequence number."""


class Result(NamedTuple):
    """The result of a rewrite. Without `swaps` there was nothing to remove."""

    swaps: tuple[Swap, ...]
    first_dirty: int
    records_dropped: int
    keyless_dropped: int
    bytes_before: int
    bytes_after: int


def choose(log: Log, config: CompactionConfig, now_ms: int, limit_offset: int) -> Plan | None:
    """The next compaction, or None. Considers only closed, committed segments before `limit_offset`."""
    cleanable = _cleanable(log, config, now_ms, limit_offset)
    if not cleanable:
        return None
    state = cleaner_state.read(log.files, log.directory, _ignore)
    end_offset = cleanable[-1].next_offset
    first_dirty = max(state.first_dirty if state.first_dirty <= end_offset else 0, log.start_offset)
    dirty = [segment for segment in cleanable if segment.next_offset > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / sum(segment.size for segment in cleanable)
    if ratio < config.dirty_ratio_min and not _is_overdue(dirty[0], config, now_ms):
        return None
    sources = tuple(
        SourceSegment(one.base_offset, one.next_offset, one.size, one.is_cleaned) for one in cleanable
    )
    last_of_producers = {
        key: one.batches[-1].last_offset for key, one in log.producers.items() if one.batches
    }
    return Plan(
        log.directory, sources, log.start_offset, first_dirty, end_offset, now_ms, config.delete_retention_ms,
        config.segment_bytes, config.index_interval_bytes, last_of_producers,
    )  # fmt: skip


def roll_is_due(log: Log, config: CompactionConfig, now_ms: int) -> bool:
    """Whether the active segment must be rolled because a record is past the maximum compaction lag."""
    return bool(log.segments) and log.segments[-1].size > 0 and _is_overdue(log.segments[-1], config, now_ms)


def install(log: Log, plan: Plan, result: Result) -> bool:
    """Replace the source segments; returns False, changing nothing, if the sources have changed since the plan.

    Blocks on the disk for a few milliseconds: the extent of gaps must be durable before there are any, because recovery
    could not otherwise tell a gap from a torn tail in the middle of the log. Not left to the thread that rewrites: a
    follower records the gaps of its leader's log in the same file meanwhile.
    """
    files = log.files
    groups = [_covered(log, one, plan) for one in result.swaps]
    if not all(groups):
        swap.discard(files, plan.directory)
        return False
    state = cleaner_state.read(files, plan.directory, _ignore)
    if result.swaps:
        log.gaps_before = max(log.gaps_before, state.gaps_before, result.swaps[-1].next_offset)
        state = state._replace(gaps_before=log.gaps_before)
        cleaner_state.write(files, plan.directory, state, sync=True)
        # The commit point: after a crash from here on swap.settle completes the replacement at the next start.
        swap.commit(files, plan.directory, result.swaps)
        for group in groups:
            for segment in group:
                segment.close()
        swap.finish(files, plan.directory, result.swaps)
        for one, group in zip(result.swaps, groups, strict=True):
            log.replace(group, [_open_cleaned(files, plan.directory, one)])
    cleaner_state.write(files, plan.directory, CleanerState(result.first_dirty, state.gaps_before), sync=True)
    return True


def _open_cleaned(files: Files, directory: str, one: Swap) -> Segment:
    segment = Segment(files, directory, one.base_offset, create=False)
    segment.is_cleaned = True
    segment.seal(one.next_offset)
    return segment


def _cleanable(log: Log, config: CompactionConfig, now_ms: int, limit_offset: int) -> list[Segment]:
    limit = min(limit_offset, log.high_watermark)
    found: list[Segment] = []
    for segment in log.segments[:-1]:
        if segment.next_offset > limit:
            break
        if (
            config.compaction_lag_ms_min > 0
            and segment.newest_time_ms() > now_ms - config.compaction_lag_ms_min
        ):
            break
        found.append(segment)
    return found


def _is_overdue(segment: Segment, config: CompactionConfig, now_ms: int) -> bool:
    """Whether the first record is past the maximum compaction lag."""
    for found in segment.walk(0, segment.size, verify=False, chunk_bytes=BATCH_HEADER_BYTES):
        first_ms = found.header.max_timestamp_ms
        return first_ms != NO_TIMESTAMP and now_ms - first_ms > config.compaction_lag_ms_max
    return False


def _covered(log: Log, one: Swap, plan: Plan) -> list[Segment]:
    """The segments that the new one replaces, or none if they are no longer those that it was made from."""
    mine = [
        segment for segment in log.segments[:-1] if one.base_offset <= segment.base_offset < one.next_offset
    ]
    theirs = [source for source in plan.sources if one.base_offset <= source.base_offset < one.next_offset]
    same = [(segment.base_offset, segment.next_offset, segment.size) for segment in mine]
    return mine if same == [source[:3] for source in theirs] else []


def _ignore(_: str) -> None:
    """Recovery has already reported a damaged file when it opened the log."""
