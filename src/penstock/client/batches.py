"""Finished record batches to their partitions, and raw batches back. Blocking; never looks at the records inside.

A batch with a producer's id and sequence may be sent again after an unknown outcome: the broker knows it by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from penstock.client.cluster import RETRIABLE, Attempts, Cluster, Leader, TopicPartition
from penstock.client.connection import BrokerConnection, word
from penstock.client.errors import OffsetOutOfRange, Refused, TimedOut, Unreachable
from penstock.client.transactions import TransactionHold, failure
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.records.batch import BatchHeader, check, size_at
from penstock.wire.kafka import ApiKey, Buffer, ErrorCode, messages

_PRODUCE_VERSION_MAX = 11
"""From the next one on, partitions enter a transaction by being written to."""
_FETCH_VERSION_MAX = 11
_ALL = -1
_FETCH_BYTES = 8 << 20

Batch = bytes | bytearray


def produce(
    cluster: Cluster, batches: Mapping[TopicPartition, Batch], hold: TransactionHold | None = None
) -> dict[TopicPartition, int]:
    """One batch for each partition, to its leader, until all are acknowledged. Returns the first offset of each."""
    left, offsets = dict(batches), dict[TopicPartition, int]()
    for attempt in Attempts(cluster.access, "produce"):
        with attempt:
            why: dict[TopicPartition, int] = {}
            for connection, places in _by_leader(cluster, left):
                try:
                    answer = _send(cluster, connection, {place: left[place] for place in places}, hold)
                except Unreachable:
                    _forget(cluster, places)
                    raise
                for place, one in _answers(answer):
                    if one.error_code:
                        why[place] = one.error_code
                    else:
                        offsets[place] = one.base_offset
                        del left[place]
            _judge(cluster, why, batches)
            if not left:
                return offsets
    raise AssertionError("attempts end with an answer or an error")


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


def _answers(
    answer: messages.ProduceResponse,
) -> Iterator[tuple[TopicPartition, messages.ProduceResponse.PartitionProduceResponse]]:
    for topic in answer.responses:
        for one in topic.partition_responses:
            yield TopicPartition(topic.name, one.index), one


def _judge(
    cluster: Cluster, why: Mapping[TopicPartition, int], batches: Mapping[TopicPartition, Batch]
) -> None:
    """Raise for what was not taken: at once if that stays so, to be tried again if it passes."""
    for place, code in sorted(why.items()):
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            raise Refused(
                f"{place.topic} does not take a batch of {len(batches[place])} bytes: "
                "make kafka.batch.size smaller, or the topic's max.message.bytes larger",
                code=word(code),
            )
        if code not in RETRIABLE:
            raise failure(code, f"partition {place.partition} of {place.topic} does not take the batch")
    if why:
        _forget(cluster, why)
        raise TimedOut(", ".join(sorted({word(code) for code in why.values()})))


def _forget(cluster: Cluster, places: Iterable[TopicPartition]) -> None:
    for place in places:
        cluster.forget(Leader(*place))


def read_raw(
    cluster: Cluster, place: TopicPartition, first: int, last: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches from one offset to another as they lie in the log, those of aborted transactions and markers too."""
    offset = first
    while offset <= last:
        answer = _fetch(cluster, place, offset)
        view = memoryview(answer)
        position, begun = 0, offset
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
        if offset == begun:
            return


def records_of(part: messages.FetchResponse.PartitionData) -> Buffer:
    """The record bytes of an answer that arrived here: never a payload that lies elsewhere."""
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
    answer = cluster.ask(ApiKey.FETCH, body, Leader(*place), version_max=_FETCH_VERSION_MAX)
    (topic,) = answer.responses
    (found,) = topic.partitions
    if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRange(f"{place.topic} partition {place.partition} has no offset {offset}")
    if found.error_code:
        raise failure(found.error_code, f"{place.topic} partition {place.partition} cannot be read")
    return records_of(found)
