"""Records of a partition as a reader of committed ones sees them. Never waits for what is not there yet."""

from __future__ import annotations

from penstock.core.model import Isolation, Record
from penstock.core.records.batch import decode_header
from penstock.core.records.whole import open_batch
from penstock.node.partition import Partition


def read_committed(partition: Partition, offset: int, bytes_max: int) -> tuple[list[Record], int]:
    """Records from an offset on, without those of aborted transactions, and where reading goes on."""
    found = partition.read(offset, bytes_max, Isolation.READ_COMMITTED)
    if found is None:
        return [], offset
    raw, position = memoryview(found.read()), 0
    aborted = partition.aborted_between(offset, found.end_offset)
    records: list[Record] = []
    upto_offset = offset
    while position < len(raw):
        header = decode_header(raw, position)
        batch = raw[position : position + header.size]
        position += header.size
        upto_offset = header.next_offset
        is_aborted = header.is_transactional and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        )
        if not header.is_control and not is_aborted:
            records += [record for record in open_batch(batch, header) if record.offset >= offset]
    return records, upto_offset
