"""One Subscribe stream: a group member, the batches that wait to be written, and what the client has settled.

The member's thread packs rows into batches; everything else runs on the loop. Batches of partitions that were revoked,
and those from before a seek, are dropped if they were not written yet.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.apps.gateways.conversion import MessageWriter
from penstock.apps.gateways.errors import failure_message
from penstock.apps.gateways.settlement import AckedMessages, HandledBatches, Place
from penstock.apps.gateways.start_request import StreamPlan
from penstock.client.errors import ClientError, IllegalState
from penstock.client.messages import Position
from penstock.client.rdkafka.consumer_progress import ConsumerProgress
from penstock.client.rdkafka.group_member import (
    CommandDone,
    GroupMember,
    MemberEnded,
    MemberEvent,
    PartitionsAssigned,
    PartitionsRevoked,
    Row,
    RowsRead,
)
from penstock.v1 import consumer_pb2, message_pb2

BATCH_BYTES = 1 << 20
"""A batch is closed when it is at least this large: gRPC clients read up to 4 MiB by default."""
QUEUED_BATCHES = 4
"""Full batches that wait to be written; then the member reads no more."""

Response = consumer_pb2.SubscribeResponse


class GroupStream:
    """The state of one stream."""

    def __init__(self, plan: StreamPlan, writer: MessageWriter) -> None:
        self.plan = plan
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._member = GroupMember(
            plan.topics, plan.options, rows_max=plan.batch_messages_max, post=self._post
        )
        self._handled = HandledBatches()
        self._acked = AckedMessages()
        self._urgent: deque[Response] = deque()
        self._events: deque[Response] = deque()
        self._queued = 0
        self._batch_id = 0
        self._wake = asyncio.Event()
        self._error: ClientError | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def start(self) -> None:
        """Join the group."""
        self._member.start()

    def leave(self) -> None:
        """Leave the group; `ended` completes once that is done."""
        self._member.close()

    def fail(self, error: ClientError) -> None:
        """End the stream with an error."""
        self._error = self._error or error
        self._wake.set()

    # -- to the client

    async def next_response(self) -> Response | None:
        """What to write next; None when the member has left. Raises the error that ends the stream."""
        while True:
            if self._error is not None:
                raise self._error
            if self._urgent:
                return self._urgent.popleft()
            if self._events and self._may_write(self._events[0]):
                return self._written(self._events.popleft())
            if self.ended.done():
                return None
            self._wake.clear()
            await self._wake.wait()

    def answer(self, response: Response) -> None:
        """Write a response before batches that wait."""
        self._urgent.append(response)
        self._wake.set()

    def answer_failure(self, error: ClientError, request_id: str) -> None:
        failed = consumer_pb2.Failed(failure=failure_message(error), request_id=request_id)
        self.answer(Response(failed=failed))

    def _may_write(self, response: Response) -> bool:
        if not response.HasField("batch") or not self._in_flight:
            return True
        return self._in_flight + len(response.batch.messages) <= self.plan.in_flight_max

    def _written(self, response: Response) -> Response:
        if response.HasField("batch"):
            batch = response.batch
            self._queued -= len(batch.messages)
            self._batch_id += 1
            batch.batch_id = self._batch_id
            if self.plan.commit_mode == consumer_pb2.COMMIT_MODE_AUTO:
                self._handled.deliver(batch)
            elif self.plan.commit_mode == consumer_pb2.COMMIT_MODE_ACK:
                self._acked.deliver(batch)
            self._update_room()
        return response

    # -- from the client

    def handle(self, batch_id: int) -> None:
        """AUTO: this batch and all before it are handled. Raises IllegalState."""
        self._check_mode(consumer_pb2.COMMIT_MODE_AUTO, "handled")
        if batch_id > self._batch_id:
            raise IllegalState(f"batch {batch_id} was not delivered: the last one is {self._batch_id}.")
        self._settled(self._handled.handle(batch_id))

    def ack(self, place: Place, offsets: Sequence[int]) -> None:
        """ACK: these messages are done. Raises IllegalState."""
        self._check_mode(consumer_pb2.COMMIT_MODE_ACK, "ack")
        self._settled(self._acked.ack(place, offsets))

    def nack(self, place: Place, offsets: Sequence[int]) -> None:
        """ACK: deliver these messages again. Raises IllegalState."""
        self._check_mode(consumer_pb2.COMMIT_MODE_ACK, "nack")
        found = self._acked.nack(place, offsets)
        if found:
            self._batch_id += 1
            batch = consumer_pb2.Batch(
                batch_id=self._batch_id,
                topic=place[0],
                partition=place[1],
                messages=found,
                next_offset=found[-1].offset + 1,
            )
            self.answer(Response(batch=batch))

    async def commit(self, positions: Sequence[Position], request_id: str) -> None:
        """MANUAL: commit, then answer. Raises IllegalState."""
        self._check_mode(consumer_pb2.COMMIT_MODE_MANUAL, "commit")
        if self.plan.options["delivery"] != "at_least_once":
            raise IllegalState("commit is for AT_LEAST_ONCE: other delivery modes commit in their own way.")
        committing: asyncio.Future[ClientError | None] = self._loop.create_future()
        self._member.commit(positions, _setter(committing))
        error = await committing
        if error is not None:
            self.answer_failure(error, request_id)
        else:
            self.answer_committed(positions, request_id)

    async def progress(self, positions: Sequence[Position]) -> ConsumerProgress:
        """EXACTLY_ONCE: these offsets, for the transaction of a producer."""
        reading: asyncio.Future[ClientError | None] = self._loop.create_future()
        found = self._member.progress(positions, _setter(reading))
        error = await reading
        if error is not None:
            raise error
        return found

    def answer_committed(self, positions: Iterable[Position], request_id: str) -> None:
        offsets = [position_message(one) for one in positions]
        self.answer(Response(committed=consumer_pb2.Committed(offsets=offsets, request_id=request_id)))

    def seek(self, position: Position, request_id: str) -> None:
        """Continue elsewhere; answered in order with the batches."""
        place = (position.topic, position.partition)

        def done(error: ClientError | None) -> None:
            if error is not None:
                self.answer_failure(error, request_id)
                return
            self._forget([place])
            sought = consumer_pb2.Sought(position=position_message(position), request_id=request_id)
            self._append(Response(sought=sought))

        self._member.seek(position, done)

    def pause(self, places: Sequence[Place]) -> None:
        self._member.pause(places, self._report_failure)

    def resume(self, places: Sequence[Place]) -> None:
        self._member.resume(places, self._report_failure)

    def rewind(self, error: ClientError, request_id: str) -> None:
        """After a failed transaction: read again what is not committed, and say so in order with the batches."""

        def done(failure: ClientError | None) -> None:
            if failure is not None:
                self.fail(failure)
                return
            self._forget({(one.batch.topic, one.batch.partition) for one in self._batches()})
            failed = consumer_pb2.Failed(failure=failure_message(error), request_id=request_id)
            self._append(Response(failed=failed))

        self._member.rewind(done)

    def _report_failure(self, error: ClientError | None) -> None:
        if error is not None:
            self.answer_failure(error, "")

    def _check_mode(self, wanted: int, name: str) -> None:
        if self.plan.commit_mode != wanted:
            mode = consumer_pb2.CommitMode.Name(wanted).removeprefix("COMMIT_MODE_")
            raise IllegalState(f"`{name}` needs commit_mode {mode}.")

    def _settled(self, positions: Sequence[Position]) -> None:
        if positions:
            self._member.store(positions)
        self._update_room()
        self._wake.set()

    # -- room

    @property
    def _in_flight(self) -> int:
        return self._handled.in_flight + self._acked.in_flight

    def _update_room(self) -> None:
        queued_max = QUEUED_BATCHES * self.plan.batch_messages_max
        has_room = self._queued < queued_max and self._in_flight + self._queued < self.plan.in_flight_max
        self._member.set_room(has_room)

    def _batches(self) -> list[Response]:
        return [one for one in self._events if one.HasField("batch")]

    def _forget(self, places: Iterable[Place]) -> None:
        """Drop what waits of these partitions, and what of them was not settled."""
        gone = set(places)
        self._events = deque(
            one
            for one in self._events
            if not one.HasField("batch") or (one.batch.topic, one.batch.partition) not in gone
        )
        self._queued = sum(len(one.batch.messages) for one in self._batches())
        self._handled.forget(gone)
        self._acked.forget(gone)
        self._update_room()

    def _append(self, response: Response) -> None:
        self._events.append(response)
        self._wake.set()

    # -- from the member

    def _post(self, event: MemberEvent) -> None:
        """In the member's thread: pack rows, then hand over to the loop."""
        taken: Callable[[], None]
        match event:
            case RowsRead(topic, partition, rows):
                batches = pack_batches(self._writer, topic, partition, rows)
                taken = functools.partial(self._take_batches, batches)
            case _:
                taken = functools.partial(self._take, event)
        try:
            self._loop.call_soon_threadsafe(taken)
        except RuntimeError:  # the loop is closed: the process ends
            return

    def _take_batches(self, batches: list[Response]) -> None:
        self._events.extend(batches)
        self._queued += sum(len(one.batch.messages) for one in batches)
        self._update_room()
        self._wake.set()

    def _take(self, event: MemberEvent) -> None:
        match event:
            case PartitionsAssigned(places, member_id):
                assigned = consumer_pb2.Assigned(partitions=_places(places), member_id=member_id)
                self._append(Response(assigned=assigned))
            case PartitionsRevoked(places):
                self._forget(places)
                self._append(Response(revoked=consumer_pb2.Revoked(partitions=_places(places))))
            case CommandDone(tag, error):
                tag(error)
            case MemberEnded(error):
                if not self.ended.done():
                    self.ended.set_result(None)
                if error is not None:
                    self.fail(error)
                self._wake.set()


def pack_batches(writer: MessageWriter, topic: str, partition: int, rows: Sequence[Row]) -> list[Response]:
    """Rows as responses with batches of about BATCH_BYTES."""
    packed: list[Response] = []
    start = size = 0
    for index, row in enumerate(rows):
        size += len(row[3] or b"") + len(row[2] or b"")
        if size >= BATCH_BYTES or index == len(rows) - 1:
            response: Any = Response()
            batch = response.batch
            batch.topic, batch.partition, batch.next_offset = topic, partition, row[0] + 1
            writer.write(batch.messages.add, partition, rows[start : index + 1])
            packed.append(response)
            start, size = index + 1, 0
    return packed


def position_message(position: Position) -> message_pb2.Position:
    return message_pb2.Position(topic=position.topic, partition=position.partition, offset=position.offset)


def _places(places: Iterable[Place]) -> list[message_pb2.TopicPartition]:
    return [message_pb2.TopicPartition(topic=topic, partition=partition) for topic, partition in places]


def _setter(waiting: asyncio.Future[ClientError | None]) -> Callable[[ClientError | None], None]:
    def answer(error: ClientError | None) -> None:
        if not waiting.done():  # the stream was cancelled meanwhile
            waiting.set_result(error)

    return answer
