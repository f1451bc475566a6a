"""Reads one partition from an offset as records, one request at a time: for callers that keep the position themselves.

Blocking. Nothing is committed, and no connection to a group is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.client.errors import NotFound, OffsetOutOfRange, RecordsDamaged, Refused
from penstock.client.raw.batches import records_of
from penstock.client.raw.cluster import Cluster, Leader, TopicPartition
from penstock.client.raw.fetch import FETCH_VERSION_MAX, fetch_request
from penstock.core.errors import BrokerError
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import Record
from penstock.core.records.batch import BatchHeader, Buffer, check, size_at
from penstock.core.records.compression import decompress, stored_decompressed_bytes_max
from penstock.core.records.payload import decode_records
from penstock.core.records.visibility import AbortedProducer, VisibleBatches
from penstock.wire.kafka import ApiKey, ErrorCode, error_name, messages


class FetchedRows(NamedTuple):
    """Records in order, where to continue, and the bounds of the log."""

    records: list[Record]
    next_offset: int
    high_watermark: int
    log_start_offset: int


class RowTerms(NamedTuple):
    """How to read: isolation level as in `raw.offsets`, limits, and the long poll."""

    isolation: int
    bytes_max: int
    wait_ms: int
    records_max: int
    """0: no limit."""


def fetch_rows(cluster: Cluster, place: TopicPartition, offset: int, terms: RowTerms) -> FetchedRows:
    """One fetch. Raises OffsetOutOfRange, NotFound, RecordsDamaged, Unreachable."""
    body = fetch_request(
        {place: offset},
        terms.isolation,
        wait_ms=terms.wait_ms,
        bytes_max=terms.bytes_max,
        partition_bytes_max=terms.bytes_max,
    )
    response = cluster.ask(
        ApiKey.FETCH, body, Leader(*place), version_max=FETCH_VERSION_MAX, wait_ms=terms.wait_ms
    )
    part = response.responses[0].partitions[0]
    _judge(place, offset, part)
    try:
        return _read(part, offset, terms.records_max)
    except BrokerError as error:
        raise RecordsDamaged(
            f"{place.topic} partition {place.partition}: damaged batch after offset {offset}: {error}"
        ) from error


def _judge(place: TopicPartition, offset: int, part: messages.FetchResponse.PartitionData) -> None:
    where = f"{place.topic} partition {place.partition}"
    code = part.error_code
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRange(f"{where} has no offset {offset}.", code=error_name(code))
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NotFound(f"There is no {where}.", code=error_name(code))
    if code:
        raise Refused(f"{where}: {error_name(code)}", code=error_name(code))


def _read(part: messages.FetchResponse.PartitionData, offset: int, records_max: int) -> FetchedRows:
    visible = VisibleBatches(
        AbortedProducer(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()
    )
    records: list[Record] = []
    next_offset = offset
    for header, batch in _batches(records_of(part)):
        if visible.shows(batch, header):
            records += [one for one in _records(header, batch) if one.offset >= offset]
        next_offset = max(next_offset, header.next_offset)
        if records_max and len(records) >= records_max:
            if len(records) > records_max:
                next_offset = records[records_max].offset
                del records[records_max:]
            break
    return FetchedRows(records, next_offset, part.high_watermark, part.log_start_offset)


def _batches(data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of a response; the last one may be cut off."""
    view, position = memoryview(data), 0
    while len(view) - position >= BATCH_HEADER_BYTES:
        size = size_at(view, position)
        if size > len(view) - position:
            return
        batch = view[position : position + size]
        yield check(batch), batch
        position += size


def _records(header: BatchHeader, batch: memoryview) -> list[Record]:
    payload: Buffer = batch[BATCH_HEADER_BYTES:]
    if header.codec:
        payload = decompress(header.codec, payload, stored_decompressed_bytes_max(header.size))
    return decode_records(
        bytes(payload),
        header.count,
        header.base_offset,
        header.base_timestamp_ms,
        log_append_time_ms=header.max_timestamp_ms if header.has_append_time else None,
    )
