"""The queue door: decodes frames, runs calls, and answers in order.

Pipelined requests take effect and are answered in order. Publishes run concurrently; every other request starts when
all earlier ones are answered, and later ones wait for its reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.model import NO_TIMESTAMP, NewRecord
from penstock.core.session import Session
from penstock.doors.queue.calls import Calls
from penstock.doors.queue.errors import DOOR, error_properties
from penstock.doors.queue.membership import CachedAck, Membership
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import UNKNOWN, Framing
from penstock.node.connections.outbox import Piece
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.waist.publisher import Published
from penstock.node.waist.subscriptions import Outcome
from penstock.node.waist.waist import Waist
from penstock.wire.queue.frames import (
    LENGTH_BYTES,
    NO_SEQUENCE,
    Frame,
    MessageType,
    decode,
    encode,
    frame_bytes,
    split_ack,
)
from penstock.wire.queue.properties import NULL_BODY, Properties, headers_in, key_in
from penstock.wire.queue.request_properties import (
    CLIENT,
    KNOWN,
    PARTITION,
    REQUEST,
    STATUS,
    SUCCESS,
    TOPIC,
    RequestProperties,
    read_request_properties,
)


class QueueFraming:
    """Frames whose first four bytes contain the size of the whole frame."""

    prefix_bytes = 0

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        return UNKNOWN if end - start < LENGTH_BYTES else frame_bytes(buffer, start, bytes_max)


_FRAMING = QueueFraming()


class QueueDoor:
    """The queue dialect."""

    name = DOOR

    def __init__(self, waist: Waist) -> None:
        self._waist = waist
        self._numbers = count(1)
        self.meter = waist.meter(DOOR)
        self.timings = {kind: self.meter.call(kind.name) for kind in KNOWN}
        self.publisher = waist.publisher()
        self.calls = Calls(waist)

    def open(self, connection: Connection) -> QueueConversation:
        return QueueConversation(self._waist, self, connection, next(self._numbers))

    def release_waiting(self) -> None:
        """The doors are closing: end all members, so that their held messages do not count as delivered."""
        self._waist.subscriptions.release_members()


class QueueConversation:
    """The conversation of one queue connection."""

    answers_after_end = True

    def __init__(self, waist: Waist, door: QueueDoor, connection: Connection, number: int) -> None:
        self._now_ms = waist.now_ms
        self._door = door
        self._connection = connection
        self._number = number
        self.membership = Membership(connection, waist.subscriptions.heartbeat_ms)

    @property
    def framing(self) -> Framing:
        return _FRAMING

    @property
    def session(self) -> Session:
        return self._connection.session

    @property
    def member_id(self) -> str:
        return f"{self._connection.session.client_id or 'member'}-{self._number}"

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return [self._ack_frame(error_properties(error))]

    def handle(self, frame: memoryview) -> None:
        self.membership.note_activity()
        ack = split_ack(frame)
        in_line = self._connection.turns.has_exclusive
        if ack is not None and not in_line and (cached := self.membership.ack_cache.get(ack[1])) is not None:
            self._accept(cached, ack[0])
            return
        request = decode(frame, is_bounded=True)
        door = self._door
        self._connection.timing = door.timings.get(request.type) or door.meter.call(request.type.name)
        try:
            fields = read_request_properties(request)
        except BrokerError as error:
            self._connection.answer([self._ack_frame((*error_properties(error), *_echo(request.properties)))])
            return
        client = fields.values.get(CLIENT)
        session = self._connection.session
        if client is not None and client != session.client_id:
            self._connection.session = session.with_client(client)
        if request.type is MessageType.ACK and in_line:
            self._connection.turns.beside(lambda slot: self._acknowledge_in_line(request, fields, slot))
        elif request.type is MessageType.ACK:
            self._acknowledge(request, fields, ack)
        elif request.type is MessageType.HEARTBEAT:
            self._connection.answer([encode(self._beat(request))])
        elif request.type is MessageType.PUBLISH:
            self._connection.turns.beside(lambda slot: self._publish(request, fields, slot))
        else:
            self._connection.turns.in_turn(lambda slot: self._door.calls.make(self, fields, slot))

    # -- replies

    def _beat(self, request: Frame) -> Frame:
        return Frame(MessageType.HEARTBEAT, request.sequence, self._now_ms(), _echo(request.properties))

    def _ack_frame(self, properties: Properties, sequence: int = NO_SEQUENCE, body: bytes = b"") -> bytes:
        return encode(Frame(MessageType.ACK, sequence, self._now_ms(), properties, body))

    def answer(
        self,
        slot: ReplySlot,
        fields: RequestProperties,
        outcome: Properties | BrokerError,
        sequence: int = NO_SEQUENCE,
        body: bytes = b"",
    ) -> None:
        """Fill a reply slot with a success and its properties, or with an error."""
        properties = (
            error_properties(outcome) if isinstance(outcome, BrokerError) else ((STATUS, SUCCESS), *outcome)
        )
        slot.answer([self._ack_frame((*properties, *_echo(tuple(fields.values.items()))), sequence, body)])

    # -- requests

    def _publish(self, request: Frame, fields: RequestProperties, slot: ReplySlot) -> None:
        def settled(outcome: Published | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                self.answer(slot, fields, outcome)
            else:
                self.answer(slot, fields, ((PARTITION, str(outcome.partition)),), outcome.offset)

        try:
            topic, partition = fields.text(TOPIC), fields.number(PARTITION)
            record = _record(request, fields)
        except BrokerError as error:
            self.answer(slot, fields, error)
            return
        connection = self._connection
        self._door.publisher.publish(connection.session, topic, record, settled, partition, connection.hold)

    def _accept(self, cached: CachedAck, offset: int) -> None:
        """Acknowledge with cached properties, without parsing them again."""
        try:
            cached.seat.acknowledge(self._connection.session, cached.partition, offset, Outcome.ACCEPT)
        except BrokerError as error:
            self._refuse(error, cached.fields, offset)

    def _acknowledge(self, request: Frame, fields: RequestProperties, ack: tuple[int, bytes] | None) -> None:
        """Not answered, unless it is rejected or requests a confirmation, which is sent once it is durable."""
        try:
            seat = self.membership.acknowledge(fields, request.sequence)
        except BrokerError as error:
            self._refuse(error, fields, request.sequence)
            return
        if ack is not None:
            self.membership.cache_ack(ack[1], fields)
        if REQUEST in fields.values:
            slot = self._connection.reserve()
            seat.when_settled(lambda error: self.answer(slot, fields, () if error is None else error))

    def _acknowledge_in_line(self, request: Frame, fields: RequestProperties, slot: ReplySlot) -> None:
        """An acknowledgement that waits for an exclusive call such as UNSUBSCRIBE; its reply slot stays empty."""
        self._acknowledge(request, fields, None)
        slot.answer(())

    def _refuse(self, error: BrokerError, fields: RequestProperties, offset: int) -> None:
        """Report a rejected acknowledgement to the member, outside the order of replies."""
        properties = (*error_properties(error), *tuple(fields.values.items()))
        self._connection.push([self._ack_frame(properties, offset)])


def _record(request: Frame, fields: RequestProperties) -> NewRecord:
    is_null = fields.flag(NULL_BODY)
    if is_null and request.body:
        raise InvalidRequest(f"PUBLISH: {NULL_BODY} is set, but the request has a body")
    return NewRecord(
        key_in(request.properties),
        None if is_null else request.body,
        headers_in(request.properties),
        request.timestamp_ms if request.timestamp_ms > 0 else NO_TIMESTAMP,
    )


def _echo(properties: Properties) -> Properties:
    """The correlation property of a request, to echo in its response."""
    return tuple((name, value) for name, value in properties if name == REQUEST)
