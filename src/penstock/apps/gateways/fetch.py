"""The call Fetch: reads one partition from an offset, with the raw client in a bounded number of threads."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from penstock.apps.gateways.brokers import Connect, access_of
from penstock.apps.gateways.conversion import MessageWriter
from penstock.apps.gateways.errors import Overloaded
from penstock.client.errors import BadArgument, OffsetOutOfRange
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from penstock.client.raw.rows import FetchedRows, RowTerms, fetch_rows
from penstock.v1 import consumer_pb2

BYTES_DEFAULT = 1 << 20
BYTES_MAX = 64 << 20
WAIT_MS_MAX = 30_000
CALL_MS_MAX = 10_000
"""Time for retries besides the long poll, unless the deadline of the call is earlier."""

CONNECT_MS_MAX = 2_000
SLICE_MS = 1_000
"""Longest single wait at a broker."""

FROM_START = -2
_RESETS = {
    consumer_pb2.RESET_POLICY_UNSPECIFIED: None,
    consumer_pb2.RESET_POLICY_NONE: None,
    consumer_pb2.RESET_POLICY_EARLIEST: EARLIEST,
    consumer_pb2.RESET_POLICY_LATEST: LATEST,
}


class Fetcher:
    """Connections and threads for Fetch."""

    def __init__(self, fetches_max: int, connect: Connect) -> None:
        self._connect = connect
        self._fetches_max = fetches_max
        self._threads = ThreadPoolExecutor(fetches_max, thread_name_prefix="penstock-fetch")
        self._idle: list[Cluster] = []
        self._running = 0

    async def fetch(
        self, request: consumer_pb2.FetchRequest, left_s: float | None
    ) -> consumer_pb2.FetchResponse:
        """Serve one request within `left_s`. Raises ClientError."""
        check_fetch(request)
        writer = MessageWriter(request.topic, request.key_serializer, request.value_serializer)
        if self._running >= self._fetches_max:
            raise Overloaded(f"{self._fetches_max} Fetch calls are in progress, the maximum of this service.")
        connection = await self._connect()
        self._running += 1
        gone = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, functools.partial(self._run, connection, request, left_s, gone)
        )
        work.add_done_callback(self._ended)
        try:
            found = await asyncio.shield(work)
        finally:
            gone.set()  # a cancelled call gives its thread back after the current slice
        response = consumer_pb2.FetchResponse(
            next_offset=found.next_offset,
            high_watermark=found.high_watermark,
            log_start_offset=found.log_start_offset,
            request_id=request.request_id,
        )
        writer.write(response.messages.add, request.partition, found.records)
        return response

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ended(self, work: asyncio.Future[FetchedRows]) -> None:
        self._running -= 1
        if not work.cancelled():
            work.exception()  # retrieved: a cancelled call does not read it

    # -- in a thread

    def _run(
        self,
        connection: dict[str, Any],
        request: consumer_pb2.FetchRequest,
        left_s: float | None,
        gone: threading.Event,
    ) -> FetchedRows:
        cluster = self._idle.pop() if self._idle else Cluster(access_of(connection))
        left_ms = CALL_MS_MAX + WAIT_MS_MAX if left_s is None else max(1, int(left_s * 1000))
        cluster.access = replace(
            cluster.access,
            client_id="penstock-consumer-service",
            call_ms_max=min(left_ms, CALL_MS_MAX),
            connect_ms_max=min(left_ms, CONNECT_MS_MAX),
        )
        try:
            found = _poll(cluster, request, min(request.max_wait_ms, left_ms), gone)
        except BaseException:
            cluster.close()
            raise
        self._idle.append(cluster)
        return found


def check_fetch(request: consumer_pb2.FetchRequest) -> None:
    """Raises BadArgument."""
    if not request.topic:
        raise BadArgument("topic is empty.")
    if request.partition < 0:
        raise BadArgument(f"partition {request.partition} is negative.")
    if request.offset < FROM_START:
        raise BadArgument(f"offset {request.offset}: use -2 for the beginning, -1 for the end, or an offset.")
    if not 0 <= request.max_bytes <= BYTES_MAX:
        raise BadArgument(f"max_bytes {request.max_bytes}: expected 0 to {BYTES_MAX}.")
    if not 0 <= request.max_wait_ms <= WAIT_MS_MAX:
        raise BadArgument(f"max_wait_ms {request.max_wait_ms}: expected 0 to {WAIT_MS_MAX}.")
    if request.max_messages < 0:
        raise BadArgument(f"max_messages {request.max_messages} is negative.")
    if request.reset not in _RESETS:
        raise BadArgument(f"reset {request.reset}: use NONE, EARLIEST or LATEST with Fetch.")


def _poll(
    cluster: Cluster, request: consumer_pb2.FetchRequest, wait_ms: int, gone: threading.Event
) -> FetchedRows:
    """A long poll in slices, so that a call that was cancelled, or a service that stops, does not wait for its end."""
    place = TopicPartition(request.topic, request.partition)
    terms = RowTerms(
        READ_UNCOMMITTED if request.read_uncommitted else READ_COMMITTED,
        request.max_bytes or BYTES_DEFAULT,
        min(wait_ms, SLICE_MS),
        request.max_messages,
    )
    deadline_s = time.monotonic() + wait_ms / 1000
    found = _first_fetch(cluster, place, request, terms)
    while not found.records and not gone.is_set():
        left_ms = int((deadline_s - time.monotonic()) * 1000)
        if left_ms <= 0:
            break
        terms = terms._replace(wait_ms=min(left_ms, SLICE_MS))
        found = fetch_rows(cluster, place, found.next_offset, terms)
    return found


def _first_fetch(
    cluster: Cluster, place: TopicPartition, request: consumer_pb2.FetchRequest, terms: RowTerms
) -> FetchedRows:
    """Resolves the beginning, the end, and an offset that is not in the log."""

    def edge(which: int) -> int:
        return list_offsets(cluster, {place: which}, terms.isolation)[place]

    if request.offset < 0:
        offset = edge(EARLIEST if request.offset == FROM_START else LATEST)
        return fetch_rows(cluster, place, offset, terms)
    try:
        return fetch_rows(cluster, place, request.offset, terms)
    except OffsetOutOfRange:
        reset = _RESETS[request.reset]
        if reset is None:
            raise
        return fetch_rows(cluster, place, edge(reset), terms)
