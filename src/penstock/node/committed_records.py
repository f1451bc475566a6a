"""Records of a partition as a reader of committed ones sees them. Never waits for what is not there yet."""

from __future__ import annotations

from penstock.core.model import Isolation, Record
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.core.records.whole import open_batch
from penstock.node.partition import Partition


def read_committed(partition: Partition, offset: int, bytes_max: int) -> tuple[list[Record], int]:
    """Records from an offset on, without those of aborted transactions, and where reading goes on."""
    found = partition.read(offset, bytes_max, Isolation.READ_COMMITTED)
    if found is None:
        return [], offset
    raw, position = memoryview(found.read()), 0
    records: list[Record] = []
    upto_offset = offset
    while position < len(raw):
        header = decode_header(raw, position)
        batch = raw[position : position + header.size]
        position += header.size
        upto_offset = header.next_offset
        if not header.is_control and not is_aborted(partition, header):
            records += [record for record in open_batch(batch, header) if record.offset >= offset]
    return records, upto_offset


def is_aborted(partition: Partition, header: BatchHeader) -> bool:
    """Does this batch belong to a transaction that was aborted?"""
    return header.is_transactional and any(
        one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
        for one in partition.aborted_between(header.base_offset, header.next_offset)
    )
