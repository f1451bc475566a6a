"""The call Subscribe: reads the requests of a stream, writes its responses, and ends the member with the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from penstock.apps.gateways.brokers import Connect
from penstock.apps.gateways.conversion import MessageWriter, RecordReader
from penstock.apps.gateways.errors import Overloaded
from penstock.apps.gateways.group_stream import GroupStream
from penstock.apps.gateways.settings import ConsumerSettings
from penstock.apps.gateways.start_request import StreamPlan, read_start
from penstock.client.errors import BadArgument, ClientError, Fenced, IllegalState, Unreachable
from penstock.client.messages import Position
from penstock.client.options import ConsumerOptions
from penstock.client.rdkafka.batch_sender import BatchSender
from penstock.v1 import consumer_pb2, message_pb2

LEAVE_S_MAX = 5.0


class Streams:
    """All Subscribe streams of the service."""

    def __init__(self, settings: ConsumerSettings, connect: Connect) -> None:
        self._settings = settings
        self._connect = connect
        self._open: set[GroupStream] = set()
        self._leaving: set[asyncio.Future[None]] = set()

    async def serve(self, requests: AsyncIterator[consumer_pb2.SubscribeRequest], context: Any) -> None:
        """One stream from its first request to its end. Raises ClientError."""
        if len(self._open) >= self._settings.streams_max:
            raise Overloaded(f"{self._settings.streams_max} streams are open, the maximum of this service.")
        start = await _first(requests)
        plan = read_start(start, self._settings)
        connection = await self._connect()
        plan.options.update(cast(ConsumerOptions, connection))
        writer = MessageWriter(", ".join(plan.topics), start.key_serializer, start.value_serializer)
        stream = GroupStream(plan, writer)
        sender = await _open_sender(plan, connection) if plan.is_exactly_once else None
        self._open.add(stream)
        stream.start()
        reading = asyncio.ensure_future(_read_requests(stream, sender, requests))
        try:
            while (response := await stream.next_response()) is not None:
                await context.write(response)
        finally:
            self._open.discard(stream)
            reading.cancel()
            stream.leave()
            self._let_leave(stream, sender)

    def end_streams(self) -> None:
        """The service stops: end every stream with UNAVAILABLE, so that its client connects again elsewhere."""
        for stream in self._open:
            stream.fail(Unreachable("The service is stopping."))

    async def close(self) -> None:
        """Wait until the members have left their groups."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=LEAVE_S_MAX)

    def _let_leave(self, stream: GroupStream, sender: BatchSender | None) -> None:
        async def leave() -> None:
            await stream.ended
            if sender is not None:
                await sender.close()

        task = asyncio.ensure_future(leave())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


async def _first(requests: AsyncIterator[consumer_pb2.SubscribeRequest]) -> consumer_pb2.Start:
    async for request in requests:
        if request.WhichOneof("request") == "start":
            return request.start
        break
    raise BadArgument("The first request of a stream is `start`.")


async def _open_sender(plan: StreamPlan, connection: dict[str, Any]) -> BatchSender:
    options: dict[str, Any] = {
        **connection,
        "client_id": "penstock-consumer-service",
        "delivery": "exactly_once",
        "transactional_id": plan.transactional_id,
    }
    sender = BatchSender(**options)
    try:
        await sender.start()
    except ClientError:
        await sender.close()
        raise
    return sender


async def _read_requests(
    stream: GroupStream,
    sender: BatchSender | None,
    requests: AsyncIterator[consumer_pb2.SubscribeRequest],
) -> None:
    """Serve the requests of the client in order. The end of them ends the stream."""
    try:
        async for request in requests:
            await _serve_request(stream, sender, request)
        stream.leave()
    except ClientError as error:
        stream.fail(error)


async def _serve_request(
    stream: GroupStream, sender: BatchSender | None, request: consumer_pb2.SubscribeRequest
) -> None:
    match request.WhichOneof("request"):
        case "handled":
            stream.handle(request.handled.batch_id)
        case "commit":
            await stream.commit(_positions(request.commit.offsets), request.commit.request_id)
        case "ack":
            stream.ack((request.ack.topic, request.ack.partition), request.ack.offsets)
        case "nack":
            stream.nack((request.nack.topic, request.nack.partition), request.nack.offsets)
        case "seek":
            (position,) = _positions([request.seek.position], -2)
            stream.seek(position, request.seek.request_id)
        case "pause":
            stream.pause([(one.topic, one.partition) for one in request.pause.partitions])
        case "resume":
            stream.resume([(one.topic, one.partition) for one in request.resume.partitions])
        case "transact":
            await _transact(stream, sender, request.transact)
        case "start":
            raise BadArgument("`start` is only the first request of a stream.")
        case _:
            raise BadArgument("The request is empty.")


def _positions(offsets: Sequence[message_pb2.Position], least: int = 0) -> list[Position]:
    for one in offsets:
        if not one.topic or one.partition < 0 or one.offset < least:
            raise BadArgument(
                f"invalid position: topic {one.topic!r}, partition {one.partition}, offset {one.offset}."
            )
    return [Position(one.topic, one.partition, one.offset) for one in offsets]


async def _transact(stream: GroupStream, sender: BatchSender | None, request: consumer_pb2.Transact) -> None:
    """Write the outputs and commit the offsets, or neither. Raises Fenced, and what is wrong with the request."""
    if sender is None:
        raise IllegalState("`transact` needs delivery EXACTLY_ONCE.")
    positions = _positions(request.offsets)
    binary = message_pb2.Serializer()
    outputs = [
        (one.topic, RecordReader(one.topic, binary, binary).read(one.messages)) for one in request.outputs
    ]

    def write() -> None:
        for topic, records in outputs:
            sender.send(topic, records, strict=True)

    progress = await stream.progress(positions)
    try:
        await sender.run_transaction(write, progress)
    except Fenced:
        raise
    except ClientError as error:
        stream.rewind(error, request.request_id)
    else:
        stream.answer_committed(positions, request.request_id)
