"""Producer state of one partition: idempotence by sequence numbers. Never appends; log.py does.

Rebuilt from batch headers, snapshotted beside the segments. A producer may retry any of its last five batches and gets
the original offset; sequences wrap from 2^31 - 1 to 0; a new epoch restarts at 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.core.errors import (
    InvalidTransactionState,
    OutOfOrder,
    StaleCoordinator,
    StaleProducer,
    TornSegment,
)
from penstock.core.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCERS_EXPECTED_MAX
from penstock.core.log import checksummed_file
from penstock.core.log.transactions import PartitionTransactions
from penstock.core.model import NO_EPOCH
from penstock.core.ports import Files
from penstock.core.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, Buffer
from penstock.core.records.control import read_marker

SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOTS_RETAINED = 2
_SEQUENCES = 2**31


class WrittenBatch(NamedTuple):
    """One remembered batch."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    time_ms: int


class Producer:
    """One producer id: its epoch, its last batches, oldest first, and the epoch of its last transaction coordinator."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "seen_ms")

    def __init__(
        self, epoch: int, batches: list[WrittenBatch], seen_ms: int, coordinator_epoch: int = NO_EPOCH
    ) -> None:
        self.epoch = epoch
        self.batches = batches
        self.seen_ms = seen_ms
        self.coordinator_epoch = coordinator_epoch


class Producers:
    """All producers of one partition. Snapshots include the state of its transactions."""

    __slots__ = (
        "_by_id", "_directory", "_files", "_has_changed", "_transactions", "has_dropped", "snapshot_offset",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, transactions: PartitionTransactions) -> None:
        self._files = files
        self._directory = directory
        self._transactions = transactions
        self._by_id: dict[int, Producer] = {}
        self._has_changed = True
        self.has_dropped = False
        """Whether snapshots were removed because they do not match the log; they must not reappear after a crash."""
        self.snapshot_offset = -1
        """The log end offset of the newest snapshot."""

    def __len__(self) -> int:
        return len(self._by_id)

    def items(self) -> list[tuple[int, Producer]]:
        return sorted(self._by_id.items())

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction at exactly this epoch."""
        known = self._by_id.get(producer_id)
        return known is not None and known.epoch == epoch and self._transactions.is_open(producer_id)

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """None if the batch is next in sequence, the original batch if it is a duplicate; otherwise raises."""
        known = self._by_id.get(header.producer_id)
        if known is None:
            return None
        if header.producer_epoch < known.epoch:
            raise StaleProducer(
                f"producer {header.producer_id} is at epoch {known.epoch}, "
                f"the batch has the older epoch {header.producer_epoch}"
            )
        if self._transactions.is_open(header.producer_id) and not header.attributes & TRANSACTIONAL:
            raise InvalidTransactionState(
                f"producer {header.producer_id} has an open transaction, but the batch is not transactional"
            )
        if header.producer_epoch > known.epoch:
            if header.base_sequence != 0:
                raise OutOfOrder(
                    f"producer {header.producer_id}: a new epoch starts at sequence 0, not {header.base_sequence}"
                )
            return None
        last_sequence = last_sequence_of(header)
        for written in known.batches:
            if written.first_sequence == header.base_sequence and written.last_sequence == last_sequence:
                return written
        expected = (known.batches[-1].last_sequence + 1) % _SEQUENCES if known.batches else 0
        if header.base_sequence != expected:
            raise OutOfOrder(
                f"producer {header.producer_id} epoch {header.producer_epoch}: "
                f"got sequence {header.base_sequence}, expected {expected}"
            )
        return None

    def expect(self, header: BatchHeader, now_ms: int) -> None:
        """The first batch of a producer could not be written, for lack of space. It will be repeated; the batches that
        the producer sent behind it must not take its place."""
        is_first = header.producer_id not in self._by_id and header.base_sequence == 0
        if is_first and len(self._by_id) < PRODUCERS_EXPECTED_MAX:
            self._by_id[header.producer_id] = Producer(header.producer_epoch, [], now_ms)
            self._has_changed = True

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, *, is_bumped: bool) -> bool:
        """Whether a marker ends or fences anything here. Raises if it is outdated.

        `is_bumped`: the marker's epoch is one above its transaction's, so that an open transaction of the same epoch
        is a later one, which the marker must not end.
        """
        known = self._by_id.get(producer_id)
        if known is None:
            return True
        is_open = self._transactions.is_open(producer_id)
        if epoch < known.epoch or (is_bumped and is_open and epoch == known.epoch):
            raise StaleProducer(
                f"producer {producer_id} is at epoch {known.epoch}, the marker has the older epoch {epoch}"
            )
        if coordinator_epoch < known.coordinator_epoch:
            raise StaleCoordinator(
                f"the marker's coordinator epoch {coordinator_epoch} is older than {known.coordinator_epoch}"
            )
        return is_open or epoch > known.epoch

    def observe(self, header: BatchHeader, base_offset: int, now_ms: int, raw: Buffer) -> None:
        """Record an appended batch. Only control batches need more of `raw` than the header."""
        if header.producer_id < 0:
            return
        if header.attributes & CONTROL:
            self._observe_marker(header, base_offset, now_ms, raw)
            return
        if header.attributes & TRANSACTIONAL:
            self._transactions.observe_data(header.producer_id, base_offset)
        self._has_changed = True
        written = WrittenBatch(
            header.base_sequence,
            last_sequence_of(header),
            base_offset,
            base_offset + header.last_offset_delta,
            header.max_timestamp_ms,
        )
        known = self._by_id.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            coordinator_epoch = NO_EPOCH if known is None else known.coordinator_epoch
            self._by_id[header.producer_id] = Producer(
                header.producer_epoch, [written], now_ms, coordinator_epoch
            )
            return
        known.seen_ms = now_ms
        known.batches.append(written)
        if len(known.batches) > PRODUCER_BATCHES_REMEMBERED:
            del known.batches[0]

    def _observe_marker(self, header: BatchHeader, base_offset: int, now_ms: int, raw: Buffer) -> None:
        """A marker ends the producer's transaction; one with a new epoch also resets its sequence."""
        marker = read_marker(raw, header)
        if marker is None:
            return
        self._has_changed = True
        self._transactions.observe_marker(header.producer_id, base_offset, is_commit=marker.is_commit)
        known = self._by_id.get(header.producer_id)
        batches = [] if known is None or known.epoch != header.producer_epoch else known.batches
        self._by_id[header.producer_id] = Producer(
            header.producer_epoch, batches, now_ms, marker.coordinator_epoch
        )

    def expire(self, now_ms: int, expiry_ms: int) -> None:
        """Remove producers that have been idle for longer than `expiry_ms` and have no open transaction."""
        for producer_id, known in self.items():
            if now_ms - known.seen_ms > expiry_ms and not self._transactions.is_open(producer_id):
                del self._by_id[producer_id]
                self._has_changed = True

    # -- snapshots

    def save(self, end_offset: int, high_watermark: int) -> None:
        """Snapshot the state as of `end_offset` and remove all but the newest snapshots. Not synced: it has a checksum.

        If the state did not change since the newest snapshot, that snapshot is renamed instead of written again.
        """
        if end_offset == self.snapshot_offset and not self._has_changed:
            return
        path = self._snapshot_path(end_offset)
        if self._has_changed:
            producers = [
                [producer_id, one.epoch, one.batches, one.seen_ms, one.coordinator_epoch]
                for producer_id, one in self.items()
            ]
            content = {"producers": producers, "transactions": self._transactions.save(high_watermark)}
            checksummed_file.write(self._files, path, content, sync=False)
        else:
            self._files.rename(self._snapshot_path(self.snapshot_offset), path)
        self.snapshot_offset, self._has_changed = end_offset, False
        for offset in self._snapshots()[:-SNAPSHOTS_RETAINED]:
            self._files.remove(self._snapshot_path(offset))

    def load(self, offset_max: int) -> int:
        """Load the newest intact snapshot at or before `offset_max`; returns its offset, or 0 if there is none."""
        self._by_id = {}
        for offset in reversed(self._snapshots()):
            producers = self._read(offset) if offset <= offset_max else None
            if producers is None:
                self._files.remove(self._snapshot_path(offset))
                self.has_dropped = True
                continue
            for producer_id, epoch, batches, seen_ms, coordinator_epoch in producers:
                written = [WrittenBatch(*one) for one in batches]
                self._by_id[producer_id] = Producer(epoch, written, seen_ms, coordinator_epoch)
            self.snapshot_offset, self._has_changed = offset, False
            return offset
        self._transactions.clear()
        self.snapshot_offset, self._has_changed = -1, True
        return 0

    def _read(self, offset: int) -> Any:
        """The producers of a snapshot, with its transactions loaded; None if either is damaged."""
        try:
            content = checksummed_file.read(self._files, self._snapshot_path(offset))
            self._transactions.load(content["transactions"])
        except TornSegment:
            return None
        return content["producers"]

    def _snapshots(self) -> list[int]:
        names = self._files.names(self._directory)
        return sorted(
            int(name[:20]) for name in names if name.endswith(SNAPSHOT_SUFFIX) and name[:20].isdigit()
        )

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def last_sequence_of(header: BatchHeader) -> int:
    """The sequence number of the batch's last record, with wrap-around."""
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCES
