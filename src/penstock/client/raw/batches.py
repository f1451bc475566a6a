"""Produces encoded record batches and reads raw batches back. Blocking; never decodes records.

A batch with a producer id and sequence is safe to retry after an unknown outcome: the broker deduplicates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from penstock.client.errors import OffsetOutOfRange, Refused, TimedOut, Unreachable
from penstock.client.raw.cluster import RETRIABLE, Attempts, Cluster, Leader, TopicPartition
from penstock.client.raw.connection import BrokerConnection
from penstock.client.raw.transactions import TransactionHold, failure
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.records.batch import BatchHeader, check, size_at
from penstock.wire.kafka import ApiKey, Buffer, ErrorCode, error_name, messages

_PRODUCE_VERSION_MAX = 11
"""Later versions add partitions to a transaction implicitly (protocol V2)."""
_FETCH_VERSION_MAX = 11
_ALL = -1
_FETCH_BYTES = 8 << 20

Batch = bytes | bytearray


def produce(
    cluster: Cluster, batches: Mapping[TopicPartition, Batch], hold: TransactionHold | None = None
) -> dict[TopicPartition, int]:
    """Produce one batch per partition, with retries until all are acknowledged. Returns their base offsets."""
    left, offsets = dict(batches), dict[TopicPartition, int]()
    for attempt in Attempts(cluster.access, "produce"):
        with attempt:
            errors: dict[TopicPartition, int] = {}
            for connection, places in _by_leader(cluster, left):
                try:
                    response = _send(cluster, connection, {place: left[place] for place in places}, hold)
                except Unreachable:
                    _forget(cluster, places)
                    raise
                for place, one in _partition_responses(response):
                    if one.error_code:
                        errors[place] = one.error_code
                    else:
                        offsets[place] = one.base_offset
                        del left[place]
            _judge(cluster, errors, batches)
            if not left:
                return offsets
    raise AssertionError("attempts end with a response or an error")


def _by_leader(
    cluster: Cluster, places: Mapping[TopicPartition, Batch]
) -> list[tuple[BrokerConnection, list[TopicPartition]]]:
    found: dict[int, tuple[BrokerConnection, list[TopicPartition]]] = {}
    for place in sorted(places):
        connection = cluster.connection_to(Leader(*place))
        found.setdefault(id(connection), (connection, []))[1].append(place)
    return list(found.values())


def _send(
    cluster: Cluster,
    connection: BrokerConnection,
    batches: Mapping[TopicPartition, Batch],
    hold: TransactionHold | None,
) -> messages.ProduceResponse:
    request = messages.ProduceRequest
    body = request(
        transactional_id=None if hold is None else hold.transactional_id,
        acks=_ALL,
        timeout_ms=cluster.access.request_ms_max,
        topic_data=[
            request.TopicProduceData(
                name=name,
                partition_data=[
                    request.PartitionProduceData(index=place.partition, records=memoryview(batches[place]))
                    for place in places
                ],
            )
            for name, places in groupby(sorted(batches), lambda place: place.topic)
        ],
    )
    version = connection.version_of(ApiKey.PRODUCE, _PRODUCE_VERSION_MAX)
    return connection.call(ApiKey.PRODUCE, body, version=version)


def _partition_responses(
    response: messages.ProduceResponse,
) -> Iterator[tuple[TopicPartition, messages.ProduceResponse.PartitionProduceResponse]]:
    for topic in response.responses:
        for one in topic.partition_responses:
            yield TopicPartition(topic.name, one.index), one


def _judge(
    cluster: Cluster, errors: Mapping[TopicPartition, int], batches: Mapping[TopicPartition, Batch]
) -> None:
    """Raise for rejected batches: TimedOut if the error is retriable, otherwise the final error."""
    for place, code in sorted(errors.items()):
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            raise Refused(
                f"{place.topic} rejected a batch of {len(batches[place])} bytes as too large: "
                "reduce kafka.batch.size or raise the topic's max.message.bytes",
                code=error_name(code),
            )
        if code not in RETRIABLE:
            raise failure(code, f"partition {place.partition} of {place.topic} rejected the batch")
    if errors:
        _forget(cluster, errors)
        raise TimedOut(", ".join(sorted({error_name(code) for code in errors.values()})))


def _forget(cluster: Cluster, places: Iterable[TopicPartition]) -> None:
    for place in places:
        cluster.forget(Leader(*place))


def read_raw(
    cluster: Cluster, place: TopicPartition, first: int, last: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The stored batches from `first` to `last`, including aborted transactions and control batches."""
    offset = first
    while offset <= last:
        response = _fetch(cluster, place, offset)
        view = memoryview(response)
        position, start = 0, offset
        while len(view) - position >= BATCH_HEADER_BYTES:
            size = size_at(view, position)
            if size > len(view) - position:
                break
            batch = view[position : position + size]
            header = check(batch)
            if header.last_offset >= offset:
                if header.base_offset > last:
                    return
                yield header, batch
                offset = header.next_offset
            position += size
        if offset == start:
            return


def records_of(part: messages.FetchResponse.PartitionData) -> Buffer:
    """The record bytes of a decoded Fetch response: always in memory, never a file payload."""
    records = part.records or b""
    assert isinstance(records, bytes | memoryview), "decoded records are a slice of their frame"
    return records


def _fetch(cluster: Cluster, place: TopicPartition, offset: int) -> Buffer:
    request = messages.FetchRequest
    body = request(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        topics=[
            request.FetchTopic(
                topic=place.topic,
                partitions=[
                    request.FetchPartition(
                        partition=place.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
                    )
                ],
            )
        ],
    )
    response = cluster.ask(ApiKey.FETCH, body, Leader(*place), version_max=_FETCH_VERSION_MAX)
    (topic,) = response.responses
    (found,) = topic.partitions
    if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRange(f"{place.topic} partition {place.partition} has no offset {offset}")
    if found.error_code:
        raise failure(found.error_code, f"cannot read {place.topic} partition {place.partition}")
    return records_of(found)
