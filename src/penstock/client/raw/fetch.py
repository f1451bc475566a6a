"""Reads an offset range of one partition as Arrow batches, with one fetch request sent ahead.

    for batch in fetch_span(cluster, Span("orders", 0, 0, 1_000), FetchTerms(), chosen_loops()):
        ...

The caller chooses the range; nothing is committed here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.client.errors import NotFound, RecordsDamaged, RecordsLost, Refused, TimedOut, Unreachable
from penstock.client.raw.batches import records_of
from penstock.client.raw.cluster import (
    API_NAMES,
    MOVED,
    NO_TOPIC_ID,
    RETRIABLE,
    Attempts,
    Cluster,
    Leader,
    TopicPartition,
    id_bytes,
)
from penstock.client.raw.connection import BrokerConnection
from penstock.client.raw.offsets import EARLIEST, READ_COMMITTED, list_offsets
from penstock.core.errors import BrokerError
from penstock.core.records.columns import ColumnLoops, WantedRows, decode_columns
from penstock.core.records.visibility import AbortedProducer
from penstock.wire.kafka import ApiKey, ErrorCode, error_name, messages

FETCH_VERSION_MAX = 12
"""The last version with topic names; later ones use topic ids."""
FETCH_VERSION_BY_ID = 13

_LOG = logging.getLogger("penstock.client")


class Span(NamedTuple):
    """A half-open offset range of one partition: `end_offset` is exclusive.

    With a `topic_id`, as in `TopicFound`, a recreated topic of the same name is not read.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: str = ""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}, offsets {self.start_offset} to {self.end_offset}"


@dataclass(frozen=True, slots=True)
class FetchTerms:
    """Settings of a fetch. After `progress_ms_max` without progress the read fails."""

    isolation: int = READ_COMMITTED
    fetch_bytes_max: int = 50 << 20
    partition_bytes_max: int = 4 << 20
    wait_ms: int = 500
    progress_ms_max: int = 120_000
    with_headers: bool = False
    fails_on_loss: bool = True


def fetch_request(
    offsets: Mapping[TopicPartition, int],
    isolation: int,
    *,
    wait_ms: int,
    bytes_max: int,
    partition_bytes_max: int,
    topic_id: bytes = NO_TOPIC_ID,
) -> messages.FetchRequest:
    """A Fetch request for one broker, from these offsets; a long poll of up to `wait_ms`.

    `topic_id` applies to a request for a single topic; versions up to FETCH_VERSION_MAX omit it.
    """
    request = messages.FetchRequest
    topics: dict[str, list[messages.FetchRequest.FetchPartition]] = {}
    for place, offset in sorted(offsets.items()):
        part = request.FetchPartition(
            partition=place.partition, fetch_offset=offset, partition_max_bytes=partition_bytes_max
        )
        topics.setdefault(place.topic, []).append(part)
    return request(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=isolation,
        topics=[
            request.FetchTopic(topic=topic, topic_id=topic_id, partitions=parts)
            for topic, parts in topics.items()
        ],
    )


def fetch_span(cluster: Cluster, span: Span, terms: FetchTerms, loops: ColumnLoops) -> Iterator[Any]:
    """Yield the records of a span as Arrow batches, in order. Raises RecordsLost, RecordsDamaged, Unreachable."""
    return _SpanReader(cluster, span, terms, loops).batches()


class _SpanReader:
    def __init__(self, cluster: Cluster, span: Span, terms: FetchTerms, loops: ColumnLoops) -> None:
        self._cluster = cluster
        self._span = span
        self._terms = terms
        self._loops = loops
        self._position = span.start_offset
        self._requested: BrokerConnection | None = None
        self._progress_s = time.monotonic()

    def batches(self) -> Iterator[Any]:
        try:
            while self._position < self._span.end_offset:
                yield from self._step()
        finally:
            if self._requested is not None:
                self._requested.close()

    def _step(self) -> list[Any]:
        """The batches of the next response; the following request is sent before they are returned."""
        part = self._receive()
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._lost(part)
            return []
        if part.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
            self._lose(f"topic id {self._span.topic_id} no longer exists, another topic has the name now")
            self._position = self._span.end_offset
            return []
        before = self._position
        wanted = WantedRows(
            self._span.topic, self._span.partition, before, self._span.end_offset, self._terms.with_headers
        )
        aborted = [
            AbortedProducer(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()
        ]
        try:
            decoded = decode_columns(records_of(part), wanted, aborted, self._loops)
        except BrokerError as error:
            raise RecordsDamaged(
                f"{self._span}: damaged batch at offset {before}: {error}. Check the log with "
                "`penstock log verify` on the broker; start after this offset to skip it."
            ) from error
        self._position = decoded.next_offset
        if self._position == before:
            self._check_stuck(part)
        else:
            self._progress_s = time.monotonic()
        if self._position < self._span.end_offset:
            self._send_ahead()
        return decoded.batches

    # -- one request in flight, sent as early as possible

    def _receive(self) -> messages.FetchResponse.PartitionData:
        for attempt in Attempts(self._cluster.access, f"{API_NAMES[ApiKey.FETCH]} of {self._span}"):
            with attempt:
                if self._requested is None:
                    self._send()
                assert self._requested is not None
                connection, self._requested = self._requested, None
                try:
                    response: messages.FetchResponse = connection.receive(wait_ms=self._terms.wait_ms)
                except Unreachable:
                    self._cluster.forget(Leader(*self._span.place))
                    raise
                part = response.responses[0].partitions[0] if response.responses else None
                self._judge(response.error_code or (part.error_code if part is not None else 0))
                if part is not None:
                    return part
        raise AssertionError("attempts end with a response or an error")

    def _judge(self, code: int) -> None:
        if code in MOVED:
            self._cluster.forget(Leader(*self._span.place))
        if code in RETRIABLE:
            raise TimedOut(error_name(code), code=error_name(code))
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise self._not_there()
        if code == ErrorCode.UNKNOWN_TOPIC_ID:
            self._check_id(code)
        elif code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            raise Refused(f"{self._span}: {error_name(code)}", code=error_name(code))

    def _check_id(self, code: int) -> None:
        """Return if another topic has the name. Raises NotFound, or TimedOut: a broker may learn an id late."""
        found = self._cluster.topics([self._span.topic]).get(self._span.topic)
        if found is None:
            raise self._not_there()
        if found.topic_id == self._span.topic_id:
            raise TimedOut(error_name(code), code=error_name(code))

    def _not_there(self) -> NotFound:
        return NotFound(f"partition {self._span.partition} of {self._span.topic} no longer exists")

    def _send(self) -> None:
        connection = self._cluster.connection_to(Leader(*self._span.place))
        terms, topic_id = self._terms, id_bytes(self._span.topic_id)
        body = fetch_request(
            {self._span.place: self._position},
            terms.isolation,
            wait_ms=terms.wait_ms,
            bytes_max=terms.fetch_bytes_max,
            partition_bytes_max=terms.partition_bytes_max,
            topic_id=topic_id,
        )
        version_max = FETCH_VERSION_MAX if topic_id == NO_TOPIC_ID else FETCH_VERSION_BY_ID
        connection.send(ApiKey.FETCH, body, version=connection.version_of(ApiKey.FETCH, version_max))
        self._requested = connection

    def _send_ahead(self) -> None:
        """Send the next request. A failure is retried and reported by the next `_receive`."""
        try:
            self._send()
        except Unreachable:
            self._cluster.forget(Leader(*self._span.place))

    # -- missing records

    def _check_stuck(self, part: messages.FetchResponse.PartitionData) -> None:
        visible = part.last_stable_offset if self._terms.isolation == READ_COMMITTED else part.high_watermark
        idle_ms = (time.monotonic() - self._progress_s) * 1000
        if idle_ms > self._terms.progress_ms_max:
            self._lose(
                f"no records after offset {self._position} for {idle_ms / 1000:.0f} s: "
                f"the readable log ends at {visible}"
            )
            self._position = self._span.end_offset

    def _lost(self, part: messages.FetchResponse.PartitionData) -> None:
        earliest = list_offsets(self._cluster, {self._span.place: EARLIEST}, self._terms.isolation)
        begin = earliest[self._span.place]
        if begin > self._position:
            self._lose(f"offset {self._position} was deleted, the log starts at {begin}")
            self._position = min(begin, self._span.end_offset)
        else:
            self._lose(f"offset {self._position} does not exist, the log ends at {part.high_watermark}")
            self._position = self._span.end_offset

    def _lose(self, what: str) -> None:
        message = f"{self._span}: {what}. Retention deleted the records, or the topic was recreated."
        if self._terms.fails_on_loss:
            raise RecordsLost(
                f"{message} Set failOnDataLoss to false to continue with the remaining records."
            )
        _LOG.warning("%s Continuing with the remaining records, because failOnDataLoss is false.", message)
