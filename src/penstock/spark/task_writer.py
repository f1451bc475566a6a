"""Writes the rows of one task: Arrow batches in, record batches to their partitions, written spans out. Never commits.

One thread builds batches, a second one sends them: the next request is built while the previous one is in flight.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.access import nearest
from penstock.client.errors import BadArgument, NotFound
from penstock.client.raw.batches import produce
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.loops import chosen_loops
from penstock.client.raw.transactions import TransactionHold, add_partitions
from penstock.core.records.batch_builder import (
    BatchBuilder,
    BatchBuilderLoops,
    ProducerIdentity,
    Rows,
    absent,
    blobs_of,
    header_blobs,
)
from penstock.core.records.partition_router import PartitionRouter, grouped
from penstock.spark.decisions import WrittenSpan

T = TypeVar("T")

_REQUESTS_WAITING_MAX = 2
_SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class WriteTerms:
    """Limits and format of batches and requests."""

    topic: str | None = None
    has_headers: bool = True
    codec: int = 0
    batch_bytes: int = 512 << 10
    request_bytes_max: int = 1 << 20
    buffer_bytes_max: int = 32 << 20
    linger_ms: int | None = None


class _Sealed(NamedTuple):
    batch: bytearray
    records: int


class _PendingBatch:
    """The unsent batch of one partition, its next sequence number, and the time of its first row."""

    __slots__ = ("batch", "sequence", "since_ms")

    def __init__(self, loops: BatchBuilderLoops) -> None:
        self.batch = BatchBuilder(loops)
        self.sequence = 0
        self.since_ms = 0


class TaskWriter:
    """Writes the rows of one task: in the transaction of `hold`, or as an idempotent producer without one."""

    def __init__(
        self,
        cluster: Cluster,
        terms: WriteTerms,
        identity: ProducerIdentity,
        hold: TransactionHold | None = None,
    ) -> None:
        self._cluster = cluster
        self._terms = terms
        self._identity = identity
        self._hold = hold
        self._loops: BatchBuilderLoops = chosen_loops("batch_builder")
        self._routers: dict[str, PartitionRouter] = {}
        self._pending: dict[TopicPartition, _PendingBatch] = {}
        self._spans: dict[TopicPartition, WrittenSpan] = {}
        self._request: dict[TopicPartition, _Sealed] = {}
        self._request_bytes = 0
        self._waiting: deque[Future[None]] = deque()
        self._sender = ThreadPoolExecutor(1, "penstock-sink")

    def write(self, batch: Any) -> None:
        """Add the rows of one Arrow batch, and send full batches."""
        if not batch.num_rows:
            return
        now_ms = time.time_ns() // 1_000_000
        for topic, part in _by_topic(batch, self._terms.topic):
            self._write_topic(topic, part, now_ms)
        linger_ms = self._terms.linger_ms
        for place, pending in self._pending.items():
            if linger_ms is not None and pending.batch.count and now_ms - pending.since_ms >= linger_ms:
                self._seal(place, pending)
        if sum(one.batch.payload_bytes for one in self._pending.values()) >= self._terms.buffer_bytes_max:
            self._seal_all()

    def finish(self) -> tuple[WrittenSpan, ...]:
        """Send the remaining batches, and wait until all are acknowledged."""
        self._seal_all()
        self._dispatch()
        while self._waiting:
            self._waiting.popleft().result()
        self._sender.shutdown()
        return tuple(self._spans[place] for place in sorted(self._spans))

    def close(self) -> None:
        """Stop and discard unsent batches."""
        self._sender.shutdown(cancel_futures=True)

    # -- build

    def _write_topic(self, topic: str, batch: Any, now_ms: int) -> None:
        router = self._routers.get(topic)
        if router is None:
            router = self._routers[topic] = self._find(topic)
        rows = rows_of(batch, now_ms, has_headers=self._terms.has_headers)
        partitions = _partitions(batch)
        for partition, order in grouped(router.route(rows.keys, partitions)):
            if not router.is_there(partition):
                raise BadArgument(
                    f"a row names partition {partition} of {topic}, which does not exist; "
                    "correct the column 'partition', or remove it to partition by key"
                )
            self._take(TopicPartition(topic, partition), rows, order, now_ms, router)

    def _take(
        self, place: TopicPartition, rows: Rows, order: Any, now_ms: int, router: PartitionRouter
    ) -> None:
        pending = self._pending.get(place)
        if pending is None:
            pending = self._pending[place] = _PendingBatch(self._loops)
        at = 0
        while at < len(order):
            if not pending.batch.count:
                pending.since_ms = now_ms
            at = pending.batch.take(rows, order, at, self._terms.batch_bytes)
            if at < len(order):
                self._seal(place, pending)
                if place.partition == router.sticky:
                    router.turn()

    def _seal_all(self) -> None:
        for place, pending in self._pending.items():
            if pending.batch.count:
                self._seal(place, pending)

    def _seal(self, place: TopicPartition, pending: _PendingBatch) -> None:
        records = pending.batch.count
        batch = pending.batch.seal(self._identity, pending.sequence, self._terms.codec)
        pending.sequence = (pending.sequence + records) % _SEQUENCES
        if len(batch) > self._terms.request_bytes_max:
            raise BadArgument(
                f"a batch of {len(batch)} bytes for {place.topic} exceeds kafka.max.request.size "
                f"({self._terms.request_bytes_max}): increase it, and the topic's max.message.bytes as well"
            )
        if place in self._request or self._request_bytes + len(batch) > self._terms.request_bytes_max:
            self._dispatch()
        self._request[place] = _Sealed(batch, records)
        self._request_bytes += len(batch)

    # -- send

    def _dispatch(self) -> None:
        """Queue the request for the sender thread; block while too many are queued."""
        if not self._request:
            return
        request, self._request, self._request_bytes = self._request, {}, 0
        while len(self._waiting) >= _REQUESTS_WAITING_MAX:
            self._waiting.popleft().result()
        self._waiting.append(self._sender.submit(self._send, request))

    def _send(self, request: dict[TopicPartition, _Sealed]) -> None:
        if self._hold is not None and (new := [place for place in request if place not in self._spans]):
            add_partitions(self._cluster, self._hold, new)
        offsets = produce(self._cluster, {place: one.batch for place, one in request.items()}, self._hold)
        for place, offset in offsets.items():
            records = request[place].records
            last = offset + records - 1
            before = self._spans.get(place, WrittenSpan(*place, offset, last, 0))
            self._spans[place] = before._replace(last=last, records=before.records + records)

    def _find(self, topic: str) -> PartitionRouter:
        found = self._ask(lambda: self._cluster.topics([topic]).get(topic))
        if found is None:
            raise NotFound(no_topic(self._ask(lambda: list(self._cluster.topics())), topic))
        return PartitionRouter(self._loops, len(found.partitions), random.randrange(1 << 16))

    def _ask(self, question: Callable[[], T]) -> T:
        """Call the cluster from the sender thread, the only one that may use it."""
        return self._sender.submit(question).result()


def no_topic(known: list[str], topic: str) -> str:
    """The error message for a missing topic."""
    return (
        f"there is no topic {topic!r}.{nearest(topic, known)} "
        f"Create it first, for example with `penstock topic create {topic}`."
    )


def rows_of(batch: Any, now_ms: int, *, has_headers: bool = True) -> Rows:
    """The written columns of an Arrow batch; rows without a timestamp get `now_ms`."""
    count = batch.num_rows
    key = _column(batch, "key")
    headers = _column(batch, "headers") if has_headers else None
    return Rows(
        absent(count) if key is None else blobs_of(key),
        blobs_of(_column(batch, "value")),
        header_blobs(headers, count),
        _times(_column(batch, "timestamp"), count, now_ms),
    )


def _column(batch: Any, name: str) -> Any | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _times(column: Any | None, count: int, now_ms: int) -> Any:
    if column is None:
        return np.full(count, now_ms, np.int64)
    micros = np.asarray(pc.fill_null(column.cast(pa.int64()), now_ms * 1000))
    return micros // 1000


def _partitions(batch: Any) -> Any | None:
    column = _column(batch, "partition")
    return None if column is None else np.asarray(pc.fill_null(column, -1)).astype(np.int64)


def _by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows by topic; all rows if the topic is fixed."""
    if topic is not None:
        yield topic, batch
        return
    column = _column(batch, "topic")
    if column is None or column.null_count:
        raise BadArgument(
            "a row has no topic: fill the column 'topic', or set the option 'topic' for all rows"
        )
    topics = pc.unique(column).to_pylist()
    for one in topics:
        yield one, batch if len(topics) == 1 else batch.filter(pc.equal(column, one))
