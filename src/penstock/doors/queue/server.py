"""The queue door: decodes frames, runs calls, and answers in order.

Pipelined requests take effect and are answered in order. Publishes run concurrently; every other request starts when
all earlier ones are answered, and later ones wait for its reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.model import NO_TIMESTAMP, NewRecord
from penstock.core.session import Session
from penstock.doors.queue.calls import Calls
from penstock.doors.queue.errors import DOOR, error_properties
from penstock.doors.queue.framing import QUEUE_FRAMING
from penstock.doors.queue.membership import CachedAck, Membership
from penstock.doors.queue.peer_handshake import PeerHandshake
from penstock.doors.queue.relaying import Relaying
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import Framing
from penstock.node.connections.outbox import Piece
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.waist.publisher import Published
from penstock.node.waist.subscriptions import Outcome, Seat
from penstock.node.waist.waist import Waist
from penstock.wire.queue.frames import (
    BETWEEN_BROKERS,
    NO_SEQUENCE,
    Frame,
    MessageType,
    decode,
    encode,
    split_ack,
    unknown_type,
)
from penstock.wire.queue.properties import NULL_BODY, Properties, headers_in, key_in
from penstock.wire.queue.request_properties import (
    CLIENT,
    KNOWN,
    PARTITION,
    REQUEST,
    STATUS,
    SUBSCRIPTION,
    SUCCESS,
    TOPIC,
    RequestProperties,
    read_request_properties,
)

if TYPE_CHECKING:
    from penstock.doors.queue.relays import ClientRelays


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
        self.peer_verbs = waist.peers
        self.relaying = Relaying(waist.peers)

    def open(self, connection: Connection) -> QueueConversation:
        return QueueConversation(self._waist, self, connection, next(self._numbers))

    def release_waiting(self) -> None:
        """The doors are closing: end all members, so that their held messages do not count as delivered."""
        self._waist.subscriptions.release_members()
        self.relaying.release()


class QueueConversation:
    """The conversation of one queue connection."""

    answers_after_end = True

    def __init__(self, waist: Waist, door: QueueDoor, connection: Connection, number: int) -> None:
        self._now_ms = waist.now_ms
        self._door = door
        self._connection = connection
        self._number = number
        self.membership = Membership(connection, waist.subscriptions.heartbeat_ms)
        self._relays: ClientRelays | None = None
        self._handshake: PeerHandshake | None = None

    @property
    def framing(self) -> Framing:
        return QUEUE_FRAMING

    @property
    def session(self) -> Session:
        return self._connection.session

    @property
    def member_id(self) -> str:
        return f"{self._connection.session.client_id or 'member'}-{self._number}"

    @property
    def peer_id(self) -> int | None:
        """The broker that relays the client; None for a client of this broker."""
        return None if self._handshake is None else self._handshake.peer_id

    @property
    def relays(self) -> ClientRelays:
        """The client's connections to other brokers."""
        if self._relays is None:
            self._relays = self._door.relaying.start(self._connection, self.membership)
        return self._relays

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return [self._ack_frame(error_properties(error))]

    def handle(self, frame: memoryview) -> None:
        self.membership.note_activity()
        ack = split_ack(frame)
        in_line = self._connection.turns.has_exclusive
        if ack is not None and not in_line and (cached := self.membership.ack_cache.get(ack[1])) is not None:
            self._accept(cached, ack[0])
            if self._relays is not None:
                self._relays.hold_if_full()
            return
        request = decode(frame, is_bounded=True)
        door = self._door
        self._connection.timing = door.timings.get(request.type) or door.meter.call(request.type.name)
        try:
            fields = read_request_properties(request)
        except BrokerError as error:
            self._connection.answer([self._ack_frame((*error_properties(error), *_echo(request.properties)))])
            return
        if request.type in BETWEEN_BROKERS:
            self._serve_broker(request, fields)
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

    # -- other brokers

    def _serve_broker(self, request: Frame, fields: RequestProperties) -> None:
        """A broker proves itself, or reports that the client it relays is gone."""
        if request.type is MessageType.LOST:
            if self.peer_id is None:
                raise unknown_type(int(request.type))
            self.membership.counts_loss = True
            return
        if self._handshake is None:
            self._handshake = PeerHandshake(self._door.peer_verbs)
        outcome = self._handshake.receive(self._connection.session, request, fields)
        body = b""
        if isinstance(outcome, bytes):
            body = outcome
        else:
            self._connection.session = outcome
            self.membership.counts_loss = False
            self._door.relaying.serve(self._connection, self._handshake)
        properties = ((STATUS, SUCCESS), *_echo(request.properties))
        self._connection.answer([self._ack_frame(properties, body=body)])

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
        code: str | None = None,
    ) -> None:
        """Fill a reply slot with a success and its properties, or with an error; `code` replaces the code of that."""
        properties = (
            error_properties(outcome, code)
            if isinstance(outcome, BrokerError)
            else ((STATUS, SUCCESS), *outcome)
        )
        slot.answer([self._ack_frame((*properties, *_echo(tuple(fields.values.items()))), sequence, body)])

    def answer_frame(self, slot: ReplySlot, fields: RequestProperties, frame: Frame) -> None:
        """Fill a reply slot with the response of another broker."""
        others = tuple(one for one in frame.properties if one[0] != REQUEST)
        properties = (*others, *_echo(tuple(fields.values.items())))
        slot.answer([encode(frame._replace(properties=properties))])

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
            seat = self.membership.seat_for(fields)
            if not isinstance(seat, Seat) and REQUEST in fields.values:
                self._acknowledge_elsewhere(request, fields)
                return
            self.membership.acknowledge(fields, request.sequence)
        except BrokerError as error:
            self._refuse(error, fields, request.sequence)
            return
        if ack is not None:
            self.membership.cache_ack(ack[1], fields)
        if self._relays is not None:
            self._relays.hold_if_full()
        if isinstance(seat, Seat) and REQUEST in fields.values:
            slot = self._connection.reserve()
            seat.when_settled(lambda error: self.answer(slot, fields, () if error is None else error))

    def _acknowledge_elsewhere(self, request: Frame, fields: RequestProperties) -> None:
        """One that requests a confirmation, for a subscription of another broker."""
        upstream = self.relays.upstream_of(fields.text(SUBSCRIPTION))
        assert upstream is not None, "it has a seat there"
        slot = self._connection.reserve()

        def responded(outcome: Frame | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                self.answer(slot, fields, outcome)
            else:
                self.answer_frame(slot, fields, outcome)

        upstream.ask(request, responded)
        self.relays.hold_if_full()

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
