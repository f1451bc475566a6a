"""Takes records out of batches, within the limits of one read. Finds no batches; readers of logs and of links do.

A batch that takes long to decompress is opened in a worker; the read ends before it. A batch that cannot be opened is
reported once and skipped.
"""

from __future__ import annotations

from typing import Protocol

from penstock.core.errors import BrokerError
from penstock.core.model import Record
from penstock.core.records.batch import BatchHeader
from penstock.core.records.portion import take_records
from penstock.node.replicas.damage import Damage
from penstock.node.runtime.payloads import Opened, Payload, PayloadKey


class PayloadSource(Protocol):
    """Where the batches come from: a partition of this node, or of another one."""

    damage: Damage

    def open_payload(
        self, place: PayloadKey, raw: memoryview, header: BatchHeader, when_opened: Opened
    ) -> Payload | None:
        """The decompressed records of a batch; None while a worker decompresses it, then `when_opened` is called."""


class RecordRead:
    """One read: what it has taken, and what it may still take."""

    def __init__(
        self, source: PayloadSource, offset: int, records_max: int, bytes_max: int, when_opened: Opened
    ) -> None:
        self._source = source
        self.offset = offset
        self.records: list[Record] = []
        self.is_opening = False
        self._is_full = False
        """The next record did not fit."""
        self.left_bytes = max(bytes_max, 1)
        self._records_max = records_max
        self._when_opened = when_opened

    @property
    def wants_more(self) -> bool:
        is_full = self._is_full or self.left_bytes <= 0 or len(self.records) >= self._records_max
        return not is_full and not self.is_opening

    def pass_over(self, header: BatchHeader) -> None:
        """Skip a batch that the reader must not see."""
        self.offset = max(self.offset, header.next_offset)

    def take_batch(self, place: PayloadKey, raw: memoryview, header: BatchHeader) -> None:
        """Take the wanted records of one batch; `place` identifies it among all batches that are being opened."""
        source = self._source
        try:
            payload = source.open_payload(place, raw, header, self._when_opened)
        except BrokerError as error:
            source.damage.skip(header.base_offset, header.next_offset, error)
            self.pass_over(header)
            return
        if payload is None:
            self.is_opening = True
            return
        taken = take_records(
            *payload,
            header,
            self.offset,
            records_max=self._records_max - len(self.records),
            bytes_max=self.left_bytes,
            takes_one=not self.records,
        )
        if taken.failure is not None:
            source.damage.skip(self.offset + len(taken.records), header.next_offset, taken.failure)
        self.records += taken.records
        self.left_bytes -= taken.content_bytes
        self.offset = max(self.offset, taken.next_offset)
        self._is_full = self.offset < header.next_offset
