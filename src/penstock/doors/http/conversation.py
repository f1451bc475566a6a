"""One HTTP connection: parses requests, starts their handlers, and switches to WebSocket.

Replies are sent in request order. A request starts when all earlier ones are answered; only writes run concurrently.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Protocol

from wsproto.frame_protocol import CloseReason

from penstock.core.errors import BrokerError, Throttled, TimedOut, TooLarge, message_of
from penstock.core.limits import JSON_BYTES_MAX
from penstock.doors.http.errors import problem_of
from penstock.doors.http.tail import Tail
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import Unframed
from penstock.node.connections.intake import Budget
from penstock.node.connections.outbox import Piece
from penstock.wire.http.request import Continue, Request, RequestReader, Upgrade
from penstock.wire.http.response import CONTINUE, Response, encode_http_response

BODY_BYTES_MAX = JSON_BYTES_MAX

EARLY_BYTES_MAX = 64 << 10
"""Bytes that a client may send after an upgrade request before it is accepted."""


class Door(Protocol):
    """The part of the door that a conversation uses."""

    @property
    def budget(self) -> Budget: ...

    def now_s(self) -> float: ...

    def start(self, conversation: HttpConversation, request: Request) -> None: ...

    def upgrade(self, conversation: HttpConversation, request: Request) -> None: ...


class HttpConversation:
    """The conversation of one HTTP connection."""

    framing = Unframed()
    answers_after_end = True

    __slots__ = (
        "_counted_bytes",
        "_door",
        "_early",
        "_is_upgrading",
        "_number",
        "_reader",
        "_tail",
        "connection",
    )

    def __init__(self, door: Door, connection: Connection, body_bytes_max: int) -> None:
        self.connection = connection
        self._door = door
        self._reader = RequestReader(min(BODY_BYTES_MAX, body_bytes_max))
        self._counted_bytes = 0
        self._number = 0
        self._is_upgrading = False
        self._early = b""
        self._tail: Tail | None = None
        connection.on_close(self._return_budget)

    def handle(self, frame: memoryview) -> None:
        """Process received bytes: parts of requests, or WebSocket frames."""
        if self._tail is not None:
            self._tail.receive(frame)
            return
        if self._is_upgrading:
            self._buffer_early(bytes(frame))
            return
        for event in self._reader.feed(frame):
            match event:
                case Request():
                    self._number += 1
                    self.connection.turns.units -= 1
                    self._door.start(self, event)
                case Continue():
                    self._answer_continue()
                case Upgrade(request, rest):
                    self._is_upgrading = True
                    self._buffer_early(rest)
                    self._door.upgrade(self, request)
                case BrokerError():
                    raise event
        self.connection.midway = self._number + 1 if self._reader.is_midway else 0
        self._count_body()

    def _answer_continue(self) -> None:
        """Send 100 Continue, in order with the replies."""
        self.connection.timing = None
        self.connection.answer((CONTINUE,))

    # -- memory

    def _count_body(self) -> None:
        """Count the incoming body against the memory budget that all connections share."""
        change = self._reader.body_bytes - self._counted_bytes
        if not change:
            return
        if change > 0 and not self._door.budget.fits(change):
            self._reader = RequestReader(0)  # nothing more is read: release what has arrived of the body
            self._return_budget()
            raise Throttled("the broker has no memory for this body at the moment (inflight_bytes_max)")
        self._counted_bytes += change
        self._door.budget.change(change)

    def _return_budget(self) -> None:
        if self._counted_bytes:
            self._door.budget.change(-self._counted_bytes)
            self._counted_bytes = 0

    # -- WebSocket

    def _buffer_early(self, content: bytes) -> None:
        """Buffer what a client sends before its upgrade is accepted, up to a limit."""
        self._early += content
        if len(self._early) > EARLY_BYTES_MAX:
            raise TooLarge("too much data was sent before the upgrade was accepted")

    def become(self, tail: Tail) -> None:
        """Switch the connection to a WebSocket."""
        early, self._early = self._early, b""
        self._tail = tail
        tail.start()
        if early:
            tail.receive(memoryview(early))

    # -- close

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        """The error as the reply to the request that could not be read."""
        if self._tail is not None:
            return (self._tail.farewell(CloseReason.INTERNAL_ERROR, message_of(error)),)
        content = encode_http_response(
            self._closing_response(error), unix_s=self._door.now_s(), keeps_alive=False
        )
        return (content,)

    def _closing_response(self, error: BrokerError) -> Response:
        if isinstance(error, TooLarge) and self._reader.is_in_head:
            return problem_of(error, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if isinstance(error, TimedOut):
            return problem_of(error, HTTPStatus.REQUEST_TIMEOUT)
        return problem_of(error)
