"""The Producer service: Produce writes one batch, Publish a stream of them in order.

A record counts as written when librdkafka reports it. A call that ends early, by its deadline or because its client is
gone, does not take back what was sent: those records may or may not be written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from penstock.apps.gateways.conversion import RecordReader
from penstock.apps.gateways.errors import abort, failure_message
from penstock.apps.gateways.in_flight import InFlight
from penstock.apps.gateways.senders import Senders, SendMode, send_mode
from penstock.apps.gateways.settings import ProducerSettings
from penstock.client.errors import BadArgument, ClientError, Unreachable
from penstock.client.rdkafka.batch_sender import BatchSender, RawRecord, SendOutcome
from penstock.v1 import message_pb2, producer_pb2, producer_pb2_grpc

RECORDS_PER_REQUEST_MAX = 100_000
BATCHES_AHEAD_MAX = 1_000
"""Batches of one stream that are sent and not answered yet."""


_PARTITIONERS = frozenset(message_pb2.Partitioner.values())


class SendPlan(NamedTuple):
    """What a request asks for besides its messages. All requests of a stream have the same."""

    mode: SendMode
    partitioner: int
    key_serializer: bytes
    value_serializer: bytes


def read_plan(request: producer_pb2.ProduceRequest) -> SendPlan:
    """Validate the options of a request. Raises BadArgument."""
    if not request.topic:
        raise BadArgument("topic is empty.")
    if len(request.messages) > RECORDS_PER_REQUEST_MAX:
        raise BadArgument(
            f"{len(request.messages)} messages in one request: the maximum is {RECORDS_PER_REQUEST_MAX}."
        )
    if request.partitioner not in _PARTITIONERS:
        raise BadArgument(f"unknown partitioner {request.partitioner}: use KEY (1) or ROUND_ROBIN (2).")
    return SendPlan(
        send_mode(request.ack_level, request.delivery),
        request.partitioner,
        request.key_serializer.SerializeToString() if request.HasField("key_serializer") else b"",
        request.value_serializer.SerializeToString() if request.HasField("value_serializer") else b"",
    )


class ProducerGateway(producer_pb2_grpc.ProducerServicer):
    """The handlers of penstock.v1.Producer."""

    def __init__(self, senders: Senders, settings: ProducerSettings) -> None:
        self._senders = senders
        self._in_flight = InFlight(settings.in_flight_records_max, settings.in_flight_bytes_max)
        self._turns: dict[str, count[int]] = {}
        self._streams: set[asyncio.Task[None]] = set()

    async def Produce(
        self, request: producer_pb2.ProduceRequest, context: Any
    ) -> producer_pb2.ProduceResponse:
        try:
            plan = read_plan(request)
            records = _reader(request).read(request.messages)
            sending = await self._send(request, plan, records)
            outcomes = await asyncio.shield(sending)
            _raise_if_all_failed(outcomes)
        except ClientError as error:
            await abort(context, error, request.request_id)
        return _response(request.request_id, outcomes)

    async def Publish(self, requests: AsyncIterator[producer_pb2.ProduceRequest], context: Any) -> None:
        sent: asyncio.Queue[_Sent] = asyncio.Queue(BATCHES_AHEAD_MAX)
        reading = asyncio.ensure_future(self._read_stream(requests, sent))
        self._streams.add(reading)
        try:
            while (one := await sent.get()).sending is not None:
                await context.write(_response(one.request_id, await asyncio.shield(one.sending)))
            if one.error is not None:
                await abort(context, one.error, one.request_id)
        finally:
            reading.cancel()
            self._streams.discard(reading)

    def end_streams(self) -> None:
        """The service stops: read no more of any stream, answer what was sent, and end it with UNAVAILABLE."""
        for reading in self._streams:
            reading.cancel()

    async def _read_stream(
        self, requests: AsyncIterator[producer_pb2.ProduceRequest], sent: asyncio.Queue[_Sent]
    ) -> None:
        """Send the batches of a stream in order. Ends with an entry without a batch: the end, or the error."""
        first: SendPlan | None = None
        request_id = ""
        reader: tuple[str, RecordReader] | None = None
        try:
            async for request in requests:
                request_id = request.request_id
                plan = read_plan(request)
                first = first or plan
                if plan != first:
                    raise BadArgument("All requests of a stream have the same options; open another stream.")
                if reader is None or reader[0] != request.topic:
                    reader = (request.topic, _reader(request))
                records = reader[1].read(request.messages)
                await sent.put(_Sent(request_id, await self._send(request, plan, records)))
            await sent.put(_Sent("", None))
        except ClientError as error:
            await sent.put(_Sent(request_id, None, error))
        except asyncio.CancelledError:
            if sent.full():
                raise  # the stream itself is gone, or is cut by the end of the grace period
            sent.put_nowait(_Sent(request_id, None, Unreachable("The service is stopping.")))

    async def _send(
        self, request: producer_pb2.ProduceRequest, plan: SendPlan, records: Sequence[RawRecord]
    ) -> asyncio.Future[list[SendOutcome]]:
        """Queue the records once there is room. Waits for the broker only on first use."""
        room = (len(records), request.ByteSize())
        await self._in_flight.reserve(*room)
        try:
            sending = await self._start_sending(request.topic, plan, records)
        except BaseException:
            self._in_flight.release(*room)
            raise
        sending.add_done_callback(lambda _: self._in_flight.release(*room))
        return sending

    async def _start_sending(
        self, topic: str, plan: SendPlan, records: Sequence[RawRecord]
    ) -> asyncio.Future[list[SendOutcome]]:
        if plan.mode.is_transaction:
            return asyncio.ensure_future(self._transact(topic, plan, records))
        sender = await self._senders.plain(plan.mode)
        sending = sender.send(topic, await self._spread(sender, topic, plan, records))
        sending.add_done_callback(lambda done: self._senders.check(plan.mode, sender, done.result()))
        return sending

    async def _transact(self, topic: str, plan: SendPlan, records: Sequence[RawRecord]) -> list[SendOutcome]:
        """Write the batch as one transaction: all of it or nothing, with the same error for every record."""
        try:
            async with self._senders.transactional() as sender:
                spread = await self._spread(sender, topic, plan, records)
                sending = await sender.run_transaction(lambda: sender.send(topic, spread, strict=True))
                return await sending
        except ClientError as error:
            return [error] * len(records)

    async def _spread(
        self, sender: BatchSender, topic: str, plan: SendPlan, records: Sequence[RawRecord]
    ) -> Sequence[RawRecord]:
        """With ROUND_ROBIN: the next partition for each record that names none."""
        if plan.partitioner != message_pb2.PARTITIONER_ROUND_ROBIN:
            return records
        total = await sender.partition_count(topic)
        turns = self._turns.setdefault(topic, count())
        return [
            (key, value, headers, next(turns) % total if partition is None else partition, timestamp_ms)
            for key, value, headers, partition, timestamp_ms in records
        ]


class _Sent(NamedTuple):
    """A batch of a stream that was sent, or the end of the stream."""

    request_id: str
    sending: asyncio.Future[list[SendOutcome]] | None
    error: ClientError | None = None


def _reader(request: producer_pb2.ProduceRequest) -> RecordReader:
    return RecordReader(request.topic, request.key_serializer, request.value_serializer)


def _raise_if_all_failed(outcomes: Sequence[SendOutcome]) -> None:
    """Raise the error of a batch of which nothing was written."""
    if outcomes and all(isinstance(one, ClientError) for one in outcomes):
        assert isinstance(outcomes[0], ClientError)
        raise outcomes[0]


def _response(request_id: str, outcomes: Sequence[SendOutcome]) -> producer_pb2.ProduceResponse:
    response = producer_pb2.ProduceResponse(request_id=request_id)
    add, failed = response.outcomes.add, 0
    for one in outcomes:
        if isinstance(one, ClientError):
            add(failure=failure_message(one))
            failed += 1
            continue
        outcome = add()  # fields one by one: faster than as arguments
        outcome.partition, offset, timestamp_ms = one
        if offset is not None:
            outcome.offset = offset
        if timestamp_ms is not None:
            outcome.timestamp = timestamp_ms
    response.failed_count = failed
    return response
