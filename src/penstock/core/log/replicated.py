"""Appends batches to a follower's log exactly as the leader wrote them: same bytes, offsets and epochs.

A follower's log has gaps where the leader's was compacted. Recovery takes a gap for a torn log unless it is expected,
so the extent of the gaps is durable before the first batch after one is written.
"""

from __future__ import annotations

from penstock.core.errors import BrokerError, Fenced, OffsetOutOfRange, UnknownEpoch
from penstock.core.log import cleaner_state
from penstock.core.log.log import Log
from penstock.core.records.batch import BatchHeader


def append_replicated(
    log: Log,
    gaps_before: int,
    batch: bytearray | memoryview,
    header: BatchHeader,
    leader_epoch: int,
    now_ms: int,
) -> int:
    """Append one validated batch of the leader of `leader_epoch`, in whose log offsets may be missing before
    `gaps_before`.

    Stamping its own offset and epoch leaves every byte unchanged.
    """
    if header.base_offset < log.end_offset or header.base_offset > max(log.end_offset, gaps_before):
        raise OffsetOutOfRange(
            f"{log.directory}: replicated batch starts at {header.base_offset}, the log ends at {log.end_offset}"
        )
    if header.leader_epoch > leader_epoch:
        raise UnknownEpoch(
            f"{log.directory}: replicated batch has epoch {header.leader_epoch}, the leader's is {leader_epoch}"
        )
    if header.leader_epoch < log.epochs.latest:
        # The owner led in the latest epochs and wrote nothing in them; the leader's log need not have them.
        log.epochs.cut_end(log.end_offset)
    if header.leader_epoch < log.epochs.latest:
        raise Fenced(
            f"{log.directory}: replicated batch has epoch {header.leader_epoch}, the log has {log.epochs.latest}"
        )
    end_offset = log.end_offset
    try:
        if header.base_offset > end_offset:
            _bridge_gap(log, header.base_offset, gaps_before)
        return log.append(batch, header, header.leader_epoch, now_ms)
    except BrokerError:
        log.end_offset = end_offset
        raise


def _bridge_gap(log: Log, offset: int, gaps_before: int) -> None:
    """Continue at `offset`. Blocks on the disk once, for all gaps that the leader has now."""
    if log.gaps_before < offset:
        log.files.make_dir(log.directory)
        state = cleaner_state.read(log.files, log.directory, _ignore)
        log.gaps_before = max(state.gaps_before, offset, gaps_before)
        cleaner_state.write(log.files, log.directory, state._replace(gaps_before=log.gaps_before), sync=True)
    if log.segments:
        log.segments[-1].is_cleaned = True
    log.end_offset = offset


def _ignore(_: str) -> None:
    """Recovery has already reported a damaged file when it opened the log."""
