"""Single records as batches: splits them by size, appends them here, tells each record its outcome.

Used for partitions of this node; `forwards` sends the same batches to other brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import BrokerError, NotLeader, Refused, TimedOut
from penstock.core.limits import BATCH_HEADER_BYTES, RECORDS_PER_DOOR_BATCH_MAX
from penstock.core.model import Acks, NewRecord
from penstock.core.records.build import build_batch
from penstock.node.replicas.partition import Partition
from penstock.node.waist.produce import AppendedBatch

RECORD_EXTRA_BYTES_MAX = 36
"""Maximum overhead of one record: lengths and deltas."""

HEADER_EXTRA_BYTES_MAX = 10

APPEND_UNITS = 8
RECORDS_PER_UNIT = 2
"""Cost of an append: units per batch, and records per additional unit."""


class Published(NamedTuple):
    """Partition and offset of a record that is as durable as its topic requires."""

    partition: int
    offset: int


Settled = Callable[[Published | BrokerError], None]
"""Called once per record, in offset order within a partition."""


def append_units(count: int) -> int:
    """Cost of building and appending a batch of so many records."""
    return APPEND_UNITS + count // RECORDS_PER_UNIT


def append_records(
    partition: Partition, records: list[NewRecord], settled: list[Settled], now_ms: int
) -> NotLeader | None:
    """Append a batch; a rejected one is retried record by record, so that only the invalid records fail.

    If this broker does not lead the partition, nothing is appended or settled, and the error is returned.
    """
    try:
        appended = partition.append(memoryview(build_batch(records, now_ms)), Acks.ALL)
        written = AppendedBatch(partition, appended, Acks.ALL)
    except NotLeader as error:
        return error
    except Refused as error:
        if len(records) == 1:
            settled[0](error)
            return None
        for index, record in enumerate(records):
            moved = append_records(partition, [record], [settled[index]], now_ms)
            assert moved is None, "leadership does not change within one turn"
    except BrokerError as error:
        settle_all(settled, error)
    else:
        written.when_acknowledged(_on_acknowledged(partition, written.base_offset, settled))
    return None


def _on_acknowledged(
    partition: Partition, base_offset: int, settled: list[Settled]
) -> Callable[[BrokerError | None], None]:
    """The callback of a batch: settles each of its records."""

    def acknowledged(error: BrokerError | None) -> None:
        if error is None:
            settle_appended(settled, partition.index, base_offset)
        elif isinstance(error, NotLeader):
            # The records are in the log, and the next leader may or may not have them. The client must not take this
            # for an append that never happened.
            settle_all(settled, TimedOut(f"{error}; the outcome is unknown"))
        else:
            settle_all(settled, error)

    return acknowledged


def settle_appended(settled: list[Settled], partition: int, base_offset: int) -> None:
    for offset, one in enumerate(settled, base_offset):
        one(Published(partition, offset))


def settle_all(settled: list[Settled], error: BrokerError) -> None:
    for one in settled:
        one(error)


def cut_records(records: list[NewRecord], bytes_max: int) -> list[tuple[int, int, int]]:
    """Split records into runs that fit into one batch each: start, stop, size in bytes. A record that is too large is a
    run of its own."""
    cuts = []
    start, size = 0, BATCH_HEADER_BYTES
    for index, record in enumerate(records):
        record_bytes = _bytes_of(record)
        is_full = size + record_bytes > bytes_max or index - start >= RECORDS_PER_DOOR_BATCH_MAX
        if is_full and index > start:
            cuts.append((start, index, size))
            start, size = index, BATCH_HEADER_BYTES
        size += record_bytes
    cuts.append((start, len(records), size))
    return cuts


def _bytes_of(record: NewRecord) -> int:
    size = RECORD_EXTRA_BYTES_MAX + len(record.key or b"") + len(record.value or b"")
    for name, content in record.headers:
        size += HEADER_EXTRA_BYTES_MAX + len(name.encode()) + len(content or b"")
    return size
