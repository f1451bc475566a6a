"""Decides which batches of a fetched run readers of committed records skip. Needs every batch of the run, in order.

A run comes with the aborted transactions that overlap it; a transaction ends at the marker of its producer.
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


class AbortedRun:
    """The aborted transactions of one run of batches."""

    __slots__ = ("_later", "_open")

    def __init__(self, aborted: Iterable[AbortedProducer]) -> None:
        self._later = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()
        """Producers whose aborted transaction has begun and not ended."""

    def hides(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether this batch, the next one of the run, is a marker or belongs to an aborted transaction."""
        while self._later and self._later[-1].first_offset <= header.last_offset:
            self._open.add(self._later.pop().producer_id)
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.is_commit:
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open
