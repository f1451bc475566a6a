"""Which fetched batches a reader sees: judges them in offset order, by the aborted transactions that came with them.

Control batches are never visible. No I/O; checksums are the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.core.records.batch import BatchHeader, Buffer
from penstock.core.records.control import read_marker


class AbortedProducer(NamedTuple):
    """An aborted transaction: its producer, and its first offset in this partition."""

    producer_id: int
    first_offset: int


class VisibleBatches:
    """The state of one pass over a run of batches. Without aborted transactions everything but markers is visible."""

    __slots__ = ("_doomed", "_later")

    def __init__(self, aborted: Iterable[AbortedProducer]) -> None:
        self._later = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._doomed: set[int] = set()
        """Producers whose transaction at this place was aborted."""

    def shows(self, batch: Buffer, header: BatchHeader) -> bool:
        """Whether the next batch is visible; each is asked about once. Raises CorruptBatch for an invalid marker."""
        while self._later and self._later[-1].first_offset <= header.last_offset:
            self._doomed.add(self._later.pop().producer_id)
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.is_commit:
                self._doomed.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._doomed)
