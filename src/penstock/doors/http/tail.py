"""A WebSocket that streams the messages of a topic, no faster than its client reads.

A tail continues reading only while little is waiting to be sent: a slow client slows down its own tail only, with
bounded memory. Records that retention deletes meanwhile are reported as skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token

from penstock.core.errors import BrokerError, InvalidRequest, OffsetOutOfRange, message_of
from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.messages import EDGES, ISOLATION_FIELD, ISOLATIONS, SHOW_FIELD
from penstock.doors.http.query import LATEST, Field, Number, Offset
from penstock.node.connections.connection import Connection
from penstock.node.waist.reader import Reader, Source, Wanted
from penstock.node.waist.topics import TopicVerbs
from penstock.wire.http.filters import RecordFilter, read_filter
from penstock.wire.http.messages import Show, show_message
from penstock.wire.http.request import Request
from penstock.wire.http.response import Response, json_bytes

AHEAD_BYTES_MAX = 256 << 10
"""Bytes that may wait to be sent before the tail pauses reading."""

STEP_RECORDS = 200
STEP_BYTES = 64 << 10
PING_S = 20.0
REASON_BYTES_MAX = 120
_KEY_CHARS = 24

TAIL_FIELDS = (
    Field(
        "partition",
        Number(0, PARTITIONS_PER_TOPIC_MAX - 1),
        None,
        "Only this partition; default: all partitions.",
    ),
    Field("offset", Offset(), LATEST, "Start position; an offset requires a partition."),
    ISOLATION_FIELD,
    SHOW_FIELD,
)


def upgrade_response(request: Request) -> Response:
    """The response that switches the connection to a WebSocket; raises InvalidRequest for an invalid upgrade
    request."""
    key = request.headers.get("sec-websocket-key", "")
    if len(key) != _KEY_CHARS or request.headers.get("sec-websocket-version") != "13":
        raise InvalidRequest("a WebSocket upgrade requires Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key")
    accept = generate_accept_token(key.encode("latin-1")).decode()
    headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
    return Response(HTTPStatus.SWITCHING_PROTOCOLS, headers=headers)


class Tails:
    """All tails of one door."""

    def __init__(self, topics: TopicVerbs, reader: Reader) -> None:
        self._topics = topics
        self._reader = reader
        self._open: dict[Tail, None] = {}

    async def make(self, exchange: Exchange) -> Tail:
        """Create the tail for a request, not started yet. Raises like a read if the request is invalid."""
        query, topic, session = exchange.query, exchange.parts["topic"], exchange.session
        isolation, offset = ISOLATIONS[query["isolation"]], query["offset"]
        self._topics.get(session, topic)
        if query["partition"] is None and isinstance(offset, int):
            raise InvalidRequest("an offset requires a partition; name one, or start at earliest or latest")
        sources = self._reader.sources(session, topic, query["partition"])
        if offset in EDGES:
            starts = await self._reader.starts(session, topic, sources, EDGES[offset], isolation)
        else:
            starts = [offset]
            await self._reader.check(session, Wanted(topic, query["partition"], offset, isolation=isolation))
        wanted = [
            Wanted(
                topic,
                one.index,
                start,
                records_max=STEP_RECORDS,
                bytes_max=STEP_BYTES,
                isolation=isolation,
            )
            for one, start in zip(sources, starts, strict=True)
        ]
        show = Show(query["values"])
        tail = Tail(exchange.connection, sources, wanted, read_filter(exchange.request.query), show)
        self._open[tail] = None
        exchange.connection.on_close(lambda: self._open.pop(tail, None))
        return tail

    def close(self) -> None:
        """End all tails: the doors are closing."""
        for tail in list(self._open):
            tail.end(CloseReason.GOING_AWAY, "the broker is stopping")


class Tail:
    """One client's tail."""

    def __init__(
        self,
        connection: Connection,
        sources: Sequence[Source],
        wanted: Sequence[Wanted],
        condition: RecordFilter,
        show: Show,
    ) -> None:
        self._connection = connection
        self._sources = sources
        self._wanted = list(wanted)
        self._filter = condition
        self._show = show
        self._frames = Frames(ConnectionType.SERVER)
        self._loop = asyncio.get_running_loop()
        self._next = 0
        self._is_due = False
        self._is_over = False
        self._waits_for_pong = False
        self._ping_timer: asyncio.TimerHandle | None = None

    # -- lifecycle

    def start(self) -> None:
        """Start sending."""
        connection = self._connection
        connection.on_close(self._leave)
        connection.on_drained(self._go_on)
        for source in self._sources:
            source.add_listener(self._go_on)
        self._ping_timer = self._loop.call_later(PING_S, self._ping)
        self._go_on()

    def _leave(self) -> None:
        self._is_over = True
        self._connection.not_on_drained(self._go_on)
        for source in self._sources:
            source.remove_listener(self._go_on)
        if self._ping_timer is not None:
            self._ping_timer.cancel()

    def end(self, code: CloseReason, why: str) -> None:
        """Send the reason and close the connection."""
        if not self._is_over:
            self._connection.push((self.farewell(code, why),))
            self._leave()
        self._connection.finish()

    def farewell(self, code: CloseReason, why: str) -> bytes:
        """The close frame; empty if the client has closed already."""
        reason = why.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
        try:
            return self._frames.send(CloseConnection(code, reason))
        except LocalProtocolError:
            return b""

    # -- receive

    def receive(self, content: memoryview) -> None:
        """Process bytes from the client, which may send close, ping and pong frames only."""
        try:
            self._frames.receive_data(bytes(content))
            for event in self._frames.events():
                match event:
                    case Ping():
                        self._connection.push((self._frames.send(event.response()),))
                    case Pong():
                        self._waits_for_pong = False
                    case CloseConnection():
                        self._connection.push((self._frames.send(event.response()),))
                        self._leave()
                        self._connection.finish()
                        return
                    case TextMessage() | BytesMessage():
                        self.end(CloseReason.UNSUPPORTED_DATA, "a tail accepts no messages")
                        return
        except RemoteProtocolError as error:
            self.end(CloseReason.PROTOCOL_ERROR, str(error))

    def _ping(self) -> None:
        """Ping an idle client to detect a dead connection; not needed while data is being sent."""
        if self._waits_for_pong:
            self._connection.close(f"no pong within {PING_S:.0f} s")
            return
        if not self._connection.waiting_bytes:
            self._waits_for_pong = True
            self._connection.push((self._frames.send(Ping()),))
        self._ping_timer = self._loop.call_later(PING_S, self._ping)

    # -- send

    def _go_on(self) -> None:
        """Schedule a step in the next loop iteration, once."""
        if not self._is_due and not self._is_over:
            self._is_due = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        """Send some messages of one partition, unless the client lags; then yield to others."""
        self._is_due = False
        if self._is_over or self._connection.is_closed or self._connection.waiting_bytes > AHEAD_BYTES_MAX:
            return
        count = len(self._wanted)
        for turn in range(count):
            at = (self._next + turn) % count
            try:
                has_moved = self._send_some(at)
            except BrokerError as error:
                self.end(CloseReason.INTERNAL_ERROR, message_of(error))
                return
            if has_moved:
                self._next = at + 1
                self._go_on()
                return

    def _send_some(self, at: int) -> bool:
        wanted = self._wanted[at]
        try:
            run = self._sources[at].read(wanted, self._go_on)
        except OffsetOutOfRange:
            return self._skip(at)
        if run.next_offset == wanted.offset:
            return False
        self._wanted[at] = wanted._replace(offset=run.next_offset)
        pieces = [
            self._frame(
                {"topic": wanted.topic, "partition": wanted.partition, **show_message(record, self._show)}
            )
            for record in run.records
            if self._filter.passes(record)
        ]
        if pieces:
            self._connection.push(pieces)
        return True

    def _skip(self, at: int) -> bool:
        """The next records were deleted: continue at the log start and report the gap."""
        wanted, start_offset = self._wanted[at], self._sources[at].start_offset
        skipped = {"skipped_from": wanted.offset, "skipped_to": start_offset}
        self._wanted[at] = wanted._replace(offset=start_offset)
        self._connection.push(
            (self._frame({"topic": wanted.topic, "partition": wanted.partition, **skipped}),)
        )
        return True

    def _frame(self, shown: dict[str, object]) -> bytes:
        return self._frames.send(TextMessage(json_bytes(shown).decode()))
